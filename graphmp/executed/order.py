"""A fixed order of reads and writes of a variable in a step, where the graph leaves it open.

Reads come first. Without such an order, two runs of the same graph differ, and so do those of two
graphs with different nodes.
"""

from __future__ import annotations

import itertools
from typing import Dict, List, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.state.state import State
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.cycles import find_cycle
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.reach import sources_of
from graphmp.graph.structure.view import GraphView, Port
from graphmp.tf_hooks.op_defs import OpDefs

_SHARE = frozenset(
    ("ExpandDims", "Identity", "RefIdentity", "Reshape", "Snapshot", "Squeeze", "StopGradient")
)  # results that share memory

Edges = List[Tuple[str, str]]


def open_order(meta_graph: tf.MetaGraphDef, train: Sequence[str]) -> Edges:
    """Pairs of a node and a write that must wait for it.

    The nodes read the variable, or write it and come earlier in the graph.
    """
    view = GraphView(meta_graph.graph_def)
    step = view.ancestors(train)
    inside = frames(view)
    free = {name for name in step if not inside.get(name)} - conditional(view)
    state = State(meta_graph, view, OpDefs(meta_graph).get)
    writes: Dict[str, List[str]] = {}
    for name in state.writes:
        for variable in state.written(name) if name in free else ():
            writes.setdefault(variable, []).append(name)
    pairs = [
        (name, write)
        for variable, names in writes.items()
        for readers in [sorted((_readers(view, variable) & free) - set(names))]
        for place, write in enumerate(names)
        for name in readers + names[:place]
    ]
    return _unordered(view, pairs)


def _unordered(view: GraphView, pairs: Edges) -> Edges:
    """The pairs of which neither node waits for the other."""
    places = {name: at for at, name in enumerate(dict.fromkeys(itertools.chain(*pairs)))}
    before = sources_of(view, list(places))
    return [
        (one, other)
        for one, other in pairs
        if not (before[one] >> places[other] | before[other] >> places[one]) & 1
    ]


def in_this_order(meta_graph: tf.MetaGraphDef, edges: Edges) -> tf.MetaGraphDef:
    """A copy of a graph with such an order, except where the graph already has another one."""
    result = tf.MetaGraphDef()
    result.CopyFrom(meta_graph)
    nodes = {node.name: node for node in result.graph_def.node}
    for before, write in edges:
        if before in nodes and write in nodes and "^" + before not in nodes[write].input:
            nodes[write].input.append("^" + before)
    return meta_graph if find_cycle(GraphView(result.graph_def)) is not None else result


def _readers(view: GraphView, variable: str) -> Set[str]:
    """The nodes that read the memory of a variable."""
    readers = view.handed_on(
        Port(variable, 0), lambda consumer: [0] * (view.nodes[consumer.node].op in _SHARE)
    )
    return {consumer.node for consumer in readers if view.nodes[consumer.node].op not in _SHARE}
