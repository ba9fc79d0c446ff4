"""Shared by the tests of rewrite/paint."""

from __future__ import annotations

X = "x Placeholder shape=[4,4]"


W = "w Const"
