"""Bytes that a graph's floating-point tensors move in a step: reads and writes, by static shapes.

Unknown dimensions count as 32, and a node in a while loop once for each iteration
(`graph/shapes/trip_counts.py`). Ops that only pass a tensor on move nothing. Of a training graph
only ancestors of the updates count, not initialisers, savers and summaries. The measure is the same
for any converter, so that graphs can be compared; TensorFlow's fusion at run time isn't considered,
since it depends on the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import AbstractSet, Dict, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from graphmp.policy.op_sets import PLACEHOLDERS, VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.rewrite.pipeline import rewrite
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs

_SIZES = {FLOAT32: 4, FLOAT64: 8, FLOAT16: 2, BFLOAT16: 2}
_SOURCES = VARIABLE_OPS | PLACEHOLDERS  # they hold what others read
_ALL: AbstractSet[str] = frozenset()


class Moves(NamedTuple):
    """The bytes that one node moves in a step.

    Attributes:
        op: its op.
        bytes: of all floating-point tensors that it reads and writes.
        wide: of those in float32 and float64.
        is_cast: whether it casts between floating-point dtypes.
    """

    op: str
    bytes: int
    wide: int
    is_cast: bool


class Traffic(NamedTuple):
    """Bytes moved by all floating-point tensors, and by casts between floating-point dtypes."""

    moved: int
    cast: int


def moves(
    meta_graph: tf.MetaGraphDef,
    shapes: Optional[tf.GraphDef] = None,
    updates: AbstractSet[str] = _ALL,
) -> Dict[str, Moves]:
    """The bytes of each node that moves any, without function bodies.

    Args:
        meta_graph: the graph to measure.
        shapes: a graph with `_output_shapes` and iterations of loops, by node name, if `meta_graph`
            lost them.
        updates: the nodes that define a step; empty for the whole graph.
    """
    graph = TypedGraph(meta_graph.graph_def, OpDefs(meta_graph), shapes)
    present = updates & graph.view.nodes.keys()
    counted = graph.view.ancestors(present) if present else graph.view.nodes.keys()
    found = {name: _moves(graph, name) for name in graph.view.nodes if name in counted}
    return {name: moved for name, moved in found.items() if moved.bytes}


def _moves(graph: TypedGraph, name: str) -> Moves:
    node, signature = graph.view.nodes[name], graph.signature(name)
    if signature is None or node.op in MOVES_NOTHING or node.op in _SOURCES:
        return Moves(node.op, 0, 0, False)
    used = {consumer.output for consumer in graph.view.consumers(name)}
    moved = [
        (port.dtype, graph.elements.of(read))
        for port, read in zip(signature.inputs, graph.view.inputs(name))
    ]
    moved += [
        (port.dtype, graph.elements.of(Port(name, i)))
        for i, port in enumerate(signature.outputs)
        if i in used
    ]
    trips = graph.trips(name)
    total = trips * sum(_SIZES.get(dtype, 0) * count for dtype, count in moved)
    wide = trips * sum(
        _SIZES[dtype] * count for dtype, count in moved if dtype in (FLOAT32, FLOAT64)
    )
    is_cast = (
        node.op == "Cast"
        and signature.inputs[0].dtype in _SIZES
        and signature.outputs[0].dtype in _SIZES
    )
    return Moves(node.op, total, wide, is_cast)


def traffic(
    meta_graph: tf.MetaGraphDef,
    shapes: Optional[tf.GraphDef] = None,
    updates: AbstractSet[str] = _ALL,
) -> Traffic:
    """The sums of `moves`."""
    return summed(moves(meta_graph, shapes, updates))


def summed(found: Dict[str, Moves]) -> Traffic:
    """Traffic of all nodes together."""
    return Traffic(
        sum(moved.bytes for moved in found.values()),
        sum(moved.bytes for moved in found.values() if moved.is_cast),
    )


def unscaled(meta_graph: tf.MetaGraphDef, config: Config, policy: Policy) -> tf.MetaGraphDef:
    """The conversion without a loss scale, whose first step measures values that others don't."""
    return rewrite(meta_graph, replace(config, loss_scale="none"), policy).meta_graph
