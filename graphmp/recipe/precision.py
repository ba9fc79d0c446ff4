"""Ops that the recipe would round and that need float32's digits: refused, for the rewrite.

The recipe computes all ahead of the last matmul in half precision, where the rewrite keeps single
nodes float32 (`rewrite/range_guard/precision.py`), and a last matmul of one number.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.painting.paint import NUMBER, last_numbers
from graphmp.rewrite.range_guard.precision import precise
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs


def unfit(forward: AbstractSet[Any], policy: Policy, config: Config) -> Dict[str, str]:
    """Forward ops of a float32 build that need its digits, by name, and why."""
    if not any(op.type in policy.allow for op in forward):
        return {}
    graph = next(iter(forward)).graph
    meta_graph = tf.MetaGraphDef(graph_def=graph.as_graph_def(add_shapes=True))
    typed = TypedGraph(meta_graph.graph_def, OpDefs(meta_graph))
    names = {op.name for op in forward}
    typed.gradients = typed.view.nodes.keys() - names
    trainable = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    typed.trainable = {variable.op.name for variable in trainable}
    found = precise(typed, policy, config.compute_dtype)
    words = {typed.units[unit].node: reason.words for unit, reason in found.items()}
    words.update(dict.fromkeys(last_numbers(typed, policy.allow), NUMBER))
    return {
        name: "would be half precision, but " + text
        for name, text in words.items()
        if name in names
    }
