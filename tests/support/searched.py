"""The number of examples of hypothesis."""

from __future__ import annotations

from hypothesis import settings

often = settings(max_examples=300)
