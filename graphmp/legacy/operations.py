"""Internals of an operation that scripts of TensorFlow 1 read."""

from __future__ import annotations

from typing import Any


class Outputs:
    """`op._outputs`, the list behind `op.outputs`; an attribute of the operation comes first."""

    def __get__(self, op: Any, owner: Any = None) -> Any:
        return self if op is None else list(op.outputs)


OUTPUTS = Outputs()


def like_rnncell(cell: Any) -> bool:
    """Whether an object has what an RNN cell has."""
    names = ("output_size", "state_size", "zero_state")
    return callable(cell) and all(hasattr(cell, name) for name in names)
