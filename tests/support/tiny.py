"""Tiny graphs from tables of one line per node."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

FLOAT32, INT32, FLOAT16, BFLOAT16 = 1, 3, 19, 14  # DataType enum


def meta_graph(
    *lines: str, order: Optional[Sequence[int]] = None, **constants: Any
) -> tf.MetaGraphDef:
    """A MetaGraphDef from lines `name Op input... attr=dtype... @device`.

    Args:
        lines: one node each; `T=float16` is a dtype attribute.
        order: positions of the lines in the graph's node list, to shuffle them.
        constants: values of Const nodes by name; a value that is not NumPy's becomes float32.
    """
    result = tf.MetaGraphDef()
    for index in order if order is not None else range(len(lines)):
        name, op, *words = lines[index].split()
        node = result.graph_def.node.add(name=name, op=op)
        for word in words:
            _add(node, word)
        if name in constants:
            value = constants[name]
            value = (
                value
                if isinstance(value, (np.ndarray, np.generic))
                else np.array(value, np.float32)
            )
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
            node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    return result


def _add(node: tf.NodeDef, word: str) -> None:
    attribute, equals, dtype = word.partition("=")
    if equals:
        node.attr[attribute].type = tf.as_dtype(dtype).as_datatype_enum
    elif word.startswith("@"):
        node.device = word[1:]
    else:
        node.input.append(word)


def report(**reasons: str) -> Dict[str, Any]:
    """A conversion's report with a reason for each node."""
    return {
        "changes": [
            {"node": node, "change": "", "reason": reason} for node, reason in reasons.items()
        ]
    }
