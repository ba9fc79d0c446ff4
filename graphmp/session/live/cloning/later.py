"""Nodes added after a conversion: dependants of clones are cloned too when first fetched.

They stay float32 and read the clones in the dtypes of the originals, so that a late summary of the
loss shows the loss that is trained.
"""

from __future__ import annotations

from typing import Any, List, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import ancestors
from graphmp.graph.structure.view import GraphView
from graphmp.session.live.cloning.clones import Clones
from graphmp.session.live.cloning.closure import with_dependents
from graphmp.session.live.cloning.nodes import LiveNodes


def followed(nodes: LiveNodes, ops: List[Any]) -> LiveNodes:
    """These nodes, with clones of later nodes that the ops run and that depend on clones.

    Nodes of a loop that existed before aren't cloned: half a loop can't run.
    """
    if not ops:
        return nodes
    view, border = _later(nodes, ops)
    seeds = border & set(nodes.stand_ins.names)
    if not seeds or border & nodes.in_loops:
        return nodes
    wanted = with_dependents(view, seeds, border)
    clones = Clones(
        ops[0].graph,
        view,
        view.graph_def,
        wanted,
        nodes.prefix,
        nodes.stand_ins.names,
        fetched=nodes.gradients.fetched,
    )
    clones.add()
    return nodes.with_clones(clones, view, wanted)


def _later(nodes: LiveNodes, ops: List[Any]) -> Tuple[GraphView, Set[str]]:
    """The later nodes that the ops run, with the known nodes that they read; names of the latter.

    The known nodes are returned without inputs.
    """
    found = ancestors(ops, stop=lambda op: nodes.knows(op.name))
    graph_def = tf.GraphDef()
    border = {op.name for op in found if nodes.knows(op.name)}
    for op in found:
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        if op.name in border:
            del node.input[:]
    return GraphView(graph_def), border
