"""The gate itself: all checks of a graph from outside, in the order of their cost."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.gate.edges import check_edges
from graphmp.gate.functions import check_functions
from graphmp.gate.named import check_collections
from graphmp.gate.nodes import Nodes
from graphmp.graph.structure.cycles import find_cycle
from graphmp.graph.structure.view import GraphView
from graphmp.tf_hooks.op_definitions import op_definitions
from graphmp.tf_hooks.op_defs import OpDefs


def check(meta_graph: tf.MetaGraphDef) -> GraphView:
    """Check a graph from outside, in time linear in its size; `limits.py` has the tables.

    Returns:
        The view of its nodes and edges by which it was checked.

    Raises:
        GraphmpError: GMP008, naming the node, the finding and the cure.
    """
    graph_def = meta_graph.graph_def
    nodes = Nodes(op_definitions(meta_graph), meta_graph.ByteSize())
    for node in graph_def.node:
        nodes.check(node)
    check_functions(graph_def, nodes)
    view = GraphView(graph_def)
    outputs = check_edges(view, OpDefs(meta_graph))
    check_collections(meta_graph, view, outputs)
    cycle = find_cycle(view)
    if cycle is not None:
        raise GraphmpError(
            "GMP008",
            "the graph has a cycle outside while loops (node %s depends on itself)" % cycle,
        )
    return view
