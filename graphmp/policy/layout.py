"""The order of a tensor's dimensions that an op's data_format tells of."""

from __future__ import annotations

from typing import Any, Optional, Sequence

Dimensions = Sequence[Optional[int]]  # None for an unknown size
_CHANNELS_FIRST = ("NCHW", "NCDHW")


def data_format(node: Any) -> str:
    """The data format of a node; empty for an op without one."""
    attributes = node.attr
    found = attributes["data_format"].s if "data_format" in attributes else b""
    return str(found.decode("utf-8", "replace"))


def is_channels_first(node: Any) -> bool:
    """Whether a node reads the channels before height and width."""
    return data_format(node) in _CHANNELS_FIRST


def channels_last(shape: Optional[Dimensions], data_format: str) -> Optional[Dimensions]:
    """A shape with its channels last."""
    if not shape or data_format not in _CHANNELS_FIRST:
        return shape
    return [shape[0], *shape[2:], *shape[1:2]]
