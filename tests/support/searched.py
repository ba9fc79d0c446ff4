"""Shared by the tests of numerics/search."""

from __future__ import annotations

from hypothesis import settings

often = settings(max_examples=300, deadline=None, derandomize=True)
