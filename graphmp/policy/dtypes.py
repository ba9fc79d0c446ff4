"""Numbers of the DataType enum that graphmp uses."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

INVALID, FLOAT32, FLOAT64, INT32, UINT8, INT8, STRING, INT64, BOOL = 0, 1, 2, 3, 4, 6, 7, 9, 10
INT16, UINT16, UINT32, UINT64 = 5, 17, 22, 23
BFLOAT16, FLOAT16, RESOURCE, VARIANT = 14, 19, 20, 21
HALF = (FLOAT16, BFLOAT16)
FLOATS = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
COMPLEX = (8, 18)
INTEGERS = (UINT8, INT8, UINT16, INT16, INT32, INT64, UINT32, UINT64)
# The type attribute that an op computes in. BatchMatMulV3 has one for each operand and one for the
# result; they are painted as one.
_COMPUTES_IN = ("T", "Ta")
BY_NAME = {"float32": FLOAT32, "float16": FLOAT16, "bfloat16": BFLOAT16}


def compute_dtype(node: Any) -> int:
    """The dtype that a node computes in; INVALID without such an attribute.

    Looking up a missing key in a protobuf map would add it.
    """
    attributes = node.attr
    for name in _COMPUTES_IN:
        if name in attributes:
            return int(attributes[name].type)
    return INVALID


def dtype_text(dtype: int) -> str:
    """`float32`; for a number that this TensorFlow doesn't know, `dtype 99`."""
    try:
        name: str = tf.as_dtype(dtype).name
    except (TypeError, KeyError):
        return "dtype %d" % dtype
    return name


def names_half(node: Any) -> bool:
    """Whether an attribute of a node is a half precision."""
    return any(value.type in HALF for value in node.attr.values())


def is_in_half(graph_def: Any) -> bool:
    """Whether a node of a graph or its functions is in half precision."""
    bodies = (graph_def.node, *(function.node_def for function in graph_def.library.function))
    return any(names_half(node) for body in bodies for node in body)
