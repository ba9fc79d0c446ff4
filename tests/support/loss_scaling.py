"""Feeds of graphs with a loss scale."""

from __future__ import annotations

from tests.support.models import VECTORS

FEED = {"x:0": VECTORS}
