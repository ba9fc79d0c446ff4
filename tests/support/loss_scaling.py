"""Shared by the tests of rewrite/scaling/loss_scaling."""

from __future__ import annotations

from tests.support.models import VECTORS

FEED = {"x:0": VECTORS}
