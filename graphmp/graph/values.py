"""Values of constants in a graph."""

from __future__ import annotations

from typing import List

import numpy as np
import tensorflow.compat.v1 as tf


def all_equal(node: tf.NodeDef, number: float) -> bool:
    """Whether a node is a constant of numbers that are all the same given one. NumPy's own comparisons refuse 1.15.5's bfloat16."""
    if node.op != "Const" or "value" not in node.attr or not tf.as_dtype(node.attr["value"].tensor.dtype).is_floating:
        return False
    return bool(np.all(tf.make_ndarray(node.attr["value"].tensor).astype(np.float32) == number))


def strings(node: tf.NodeDef) -> List[str]:
    """The strings of a constant; none for any other node."""
    if node.op != "Const" or "value" not in node.attr or node.attr["value"].tensor.dtype != tf.string.as_datatype_enum:
        return []
    return [text.decode("utf-8", "replace") for text in tf.make_ndarray(node.attr["value"].tensor).ravel()]
