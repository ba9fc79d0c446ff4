"""Bytes that a graph's float tensors move in one step: what each op reads and writes, by static shapes.

Unknown dimensions count as 32, and a node in a while loop 32 times a loop. Ops that only hand a tensor on move nothing.
The same measure for any converter, so that graphs can be compared.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from graphmp.graph.shapes import UNKNOWN_DIMENSION, UNKNOWN_RANK, recorded_elements
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.graph.view import Port
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.rewrite.op_defs import OpDefs
from graphmp.rewrite.units import TypedGraph

_SIZES = {FLOAT32: 4, FLOAT64: 8, FLOAT16: 2, BFLOAT16: 2}
_SOURCES = VARIABLE_OPS | {"Placeholder", "PlaceholderWithDefault"}  # they hold what others read


class Traffic(NamedTuple):
    """Bytes moved by all float tensors, and of these by casts between float dtypes."""

    moved: int
    cast: int


def traffic(meta_graph: tf.MetaGraphDef, shapes: Optional[tf.GraphDef] = None) -> Traffic:
    """Traffic of a graph; functions are not looked into.

    Args:
        meta_graph: the graph to measure.
        shapes: a graph to take `_output_shapes` from, by node name, where `meta_graph` lost them.
    """
    graph = TypedGraph(meta_graph.graph_def, OpDefs(meta_graph))
    elements = _Elements(graph, shapes)
    moved = cast = 0
    for name, node in graph.view.nodes.items():
        signature = graph.signature(name)
        if signature is None or node.op in MOVES_NOTHING or node.op in _SOURCES:
            continue
        reads = sum(_SIZES.get(port.dtype, 0) * elements[read] for port, read in zip(signature.inputs, graph.view.inputs(name)))
        used = {consumer.output for consumer in graph.view.consumers(name)}
        writes = sum(_SIZES.get(port.dtype, 0) * elements[Port(name, i)] for i, port in enumerate(signature.outputs) if i in used)
        trips = UNKNOWN_DIMENSION ** graph.depth(name)
        moved += (reads + writes) * trips
        if node.op == "Cast" and signature.inputs[0].dtype in _SIZES and signature.outputs[0].dtype in _SIZES:
            cast += (reads + writes) * trips
    return Traffic(moved, cast)


class _Elements(Dict[Port, int]):
    """Elements of each tensor; those of a cast are its input's."""

    def __init__(self, graph: TypedGraph, shapes: Optional[tf.GraphDef]):
        super().__init__()
        self._graph = graph
        self._recorded = {node.name: node for node in shapes.node} if shapes is not None else {}

    def __missing__(self, port: Port) -> int:
        node = self._recorded.get(port.node, self._graph.view.nodes[port.node])
        inputs = self._graph.view.inputs(port.node)
        inherits = "_output_shapes" not in node.attr and node.op in ("Cast", "Enter") and inputs
        elements = self[inputs[0]] if inherits else recorded_elements(node, port.output) if node.op else UNKNOWN_RANK
        self[port] = elements
        return elements
