"""Training by gradients that the graph computes itself, without `tf.gradients`.

Nothing tells these gradients from other values, so that they can't be scaled. What tells of the
training is an assignment to a trainable variable of what a matmul or convolution computed.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import ASSIGNS
from graphmp.policy.policy import tensor_core_ops


class ByHand(NamedTuple):
    """An assignment that trains: its name, its variable's and its value's matmul or convolution."""

    write: str
    variable: str
    source: str

    def __str__(self) -> str:
        return "%s updates %s from %s" % self


def trained_by_hand(meta_graph: tf.MetaGraphDef, view: GraphView) -> Optional[ByHand]:
    """The first such assignment in the main graph; None if there is none.

    Assignments that give variables their initial values don't count.
    """
    state = State(meta_graph, view)
    trainable = state.collected(tf.GraphKeys.TRAINABLE_VARIABLES) or frozenset()
    serves = frozenset(tensor_core_ops())
    for name, node in view.nodes.items():
        if node.op not in ASSIGNS or name in state.initializers:
            continue
        target, value = view.inputs(name)[:2]
        variable = state.variable(target.node)
        if variable not in trainable:
            continue
        before = view.ancestors([value.node], control=False)
        sources = [n for n in before if view.nodes[n].op in serves]
        if variable is not None and sources:
            return ByHand(name, variable, view.in_graph_order(sources)[-1])
    return None
