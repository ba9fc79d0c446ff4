"""Values of constants in a graph."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf


def all_equal(node: tf.NodeDef, number: float) -> bool:
    """Whether a node is a constant of numbers that are all the same given one. NumPy's own comparisons refuse 1.15.5's bfloat16."""
    if node.op != "Const" or "value" not in node.attr or not tf.as_dtype(node.attr["value"].tensor.dtype).is_floating:
        return False
    return bool(np.all(tf.make_ndarray(node.attr["value"].tensor).astype(np.float32) == number))
