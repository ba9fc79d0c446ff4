"""Inputs of tiny graphs for the painter."""

from __future__ import annotations

X = "x Placeholder shape=[4,4]"


W = "w Const"
