"""Counts computed from shapes: the value of a small integer expression of static shapes.

The expression is computed twice, with 32 and with 64 for every unknown dimension. If the results
agree the unknown dimensions cancel, as in the divisor of a mean: all elements over the remaining
ones.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.structure.values import constant
from graphmp.graph.structure.view import GraphView, Port

_UNKNOWN = (32, 64)
_DEEPEST = 30
_LONGEST = 1000  # elements of a Range: one over the axes of a tensor has fewer


def _range(start: Any, limit: Any, step: Any) -> Any:
    if not abs(float(limit) - float(start)) <= _LONGEST * abs(float(step)) or step == 0:
        raise ValueError("a Range that is too long")
    return np.arange(start, limit, step)


# The ops in gradients of reductions, in NumPy.
_OPS: Dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "AddV2": np.add,
    "Cast": lambda x: x,
    "FloorDiv": lambda x, y: x // np.maximum(y, 1),
    "FloorMod": np.mod,
    "Gather": lambda x, i: np.take(x, i, axis=0),
    "GatherV2": lambda x, i, axis: np.take(x, i, axis=int(axis)),
    "Identity": lambda x: x,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "Prod": lambda x, axes: np.prod(x, axis=tuple(np.ravel(axes))) if np.ndim(x) else x,
    "Range": _range,
    "Sub": np.subtract,
}


def count(view: GraphView, name: str) -> Optional[float]:
    """The value of a node for any unknown dimensions; None if it depends on them."""
    values = [_Values(view, unknown).of(Port(name, 0), 0) for unknown in _UNKNOWN]
    if any(value is None or np.size(value) != 1 for value in values) or not np.array_equal(
        values[0], values[1]
    ):
        return None
    return float(np.ravel(values[0])[0])


class _Values:
    """The values of outputs, each computed once for each distance from the counted node."""

    def __init__(self, view: GraphView, unknown: int):
        self._view, self._unknown = view, unknown
        self._known: Dict[Tuple[Port, int], Any] = {}

    def of(self, port: Port, depth: int) -> Any:
        """The value of an output; None if it isn't computed from shapes, or too far away."""
        if depth > _DEEPEST:
            return None
        if (port, depth) not in self._known:
            self._known[port, depth] = self._computed(port, depth)
        return self._known[port, depth]

    def _computed(self, port: Port, depth: int) -> Any:
        node, inputs = self._view.nodes[port.node], self._view.inputs(port.node)
        if node.op == "Const":
            return constant(node)
        if node.op in ("Shape", "Size", "ShapeN") and inputs:
            return self._dimensions(node.op, inputs[port.output if node.op == "ShapeN" else 0])
        if node.op not in _OPS:
            return None
        arguments = [self.of(each, depth + 1) for each in inputs]
        if any(argument is None for argument in arguments):
            return None
        try:
            return _OPS[node.op](*arguments)
        except (ValueError, IndexError, TypeError):
            return None  # incompatible shapes, as recorded by an older TensorFlow

    def _dimensions(self, op: str, source: Port) -> Any:
        node = self._view.nodes[source.node]
        dimensions = recorded_dimensions(node, source.output, self._unknown)
        if dimensions is None:
            return None
        return np.prod(dimensions) if op == "Size" else np.array(dimensions, np.int64)
