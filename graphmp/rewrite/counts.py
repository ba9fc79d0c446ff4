"""Counts computed from shapes: the value of a small integer expression of static shapes.

The expression is computed twice, with 32 and with 64 for every unknown dimension. If the results
agree the unknown dimensions cancel, as in the divisor of a mean: all elements over the remaining
ones.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import numpy as np

from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.structure.values import constant
from graphmp.graph.structure.view import GraphView, Port

_UNKNOWN = (32, 64)
_DEEPEST = 30

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
    "Range": np.arange,
    "Sub": np.subtract,
}


def count(view: GraphView, name: str) -> Optional[float]:
    """The value of a node for any unknown dimensions; None if it depends on them."""
    values = [_value(view, Port(name, 0), unknown, 0) for unknown in _UNKNOWN]
    if any(value is None or np.size(value) != 1 for value in values) or not np.array_equal(
        values[0], values[1]
    ):
        return None
    return float(np.ravel(values[0])[0])


def _value(view: GraphView, port: Port, unknown: int, depth: int) -> Any:
    node = view.nodes[port.node]
    if depth > _DEEPEST:
        return None
    if node.op == "Const":
        return constant(node)
    if node.op in ("Shape", "Size", "ShapeN") and view.inputs(port.node):
        source = view.inputs(port.node)[port.output if node.op == "ShapeN" else 0]
        dimensions = recorded_dimensions(view.nodes[source.node], source.output, unknown)
        return (
            None
            if dimensions is None
            else np.prod(dimensions)
            if node.op == "Size"
            else np.array(dimensions, np.int64)
        )
    arguments = (
        [_value(view, each, unknown, depth + 1) for each in view.inputs(port.node)]
        if node.op in _OPS
        else [None]
    )
    if any(argument is None for argument in arguments):
        return None
    try:
        return _OPS[node.op](*arguments)
    except (
        ValueError,
        IndexError,
        TypeError,
    ):  # incompatible shapes, as recorded by an older TensorFlow
        return None
