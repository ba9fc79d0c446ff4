"""Values of constants in a graph."""

from __future__ import annotations

import functools
import operator
from typing import Any, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView


def all_equal(node: tf.NodeDef, number: float) -> bool:
    """Whether a node is a constant all of whose numbers equal the given one.

    NumPy's own comparisons don't support 1.15.5's bfloat16.
    """
    if (
        node.op != "Const"
        or "value" not in node.attr
        or not tf.as_dtype(node.attr["value"].tensor.dtype).is_floating
    ):
        return False
    return bool(np.all(compact(node.attr["value"].tensor).astype(np.float32) == number))


def is_one(view: GraphView, name: str) -> bool:
    """Whether a node is the number 1, the initial gradient of a loss."""
    node = view.nodes[name]
    if node.op != "Fill":
        return all_equal(node, 1) and elements(node.attr["value"].tensor) == 1
    dims, value = (view.nodes[port.node] for port in view.inputs(name))
    return all_equal(value, 1) and dims.op == "Const" and elements(dims.attr["value"].tensor) == 0


def elements(tensor: Any) -> int:
    """The number of elements of a TensorProto, by its shape."""
    return functools.reduce(operator.mul, (dim.size for dim in tensor.tensor_shape.dim), 1)


def array(tensor: Any) -> Optional[np.ndarray]:
    """The value of a TensorProto.

    None for an unknown dtype or elements that don't fit its shape.
    """
    try:
        return np.asarray(tf.make_ndarray(tensor))
    except (TypeError, ValueError, KeyError):
        return None


def compact(tensor: Any) -> np.ndarray:
    """The elements of a real TensorProto, flat; the element that fills the rest occurs once.

    Expanded, a few bytes may be petabytes.
    """
    if tensor.tensor_content:
        return np.asarray(tf.make_ndarray(tensor)).ravel()
    count = max(
        (len(value) for field, value in tensor.ListFields() if field.name.endswith("_val")),
        default=0,
    )
    if not count or not elements(tensor):
        return np.zeros(min(1, elements(tensor)), tf.as_dtype(tensor.dtype).as_numpy_dtype)
    short = type(tensor)()
    short.CopyFrom(tensor)
    del short.tensor_shape.dim[:]
    short.tensor_shape.dim.add(size=count)
    return np.asarray(tf.make_ndarray(short))


def strings(node: tf.NodeDef) -> List[str]:
    """The strings of a constant; empty for any other node."""
    if (
        node.op != "Const"
        or "value" not in node.attr
        or node.attr["value"].tensor.dtype != tf.string.as_datatype_enum
    ):
        return []
    return [
        text.decode("utf-8", "replace")
        for text in tf.make_ndarray(node.attr["value"].tensor).ravel()
    ]
