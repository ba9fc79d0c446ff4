"""Costs made by hand."""

from __future__ import annotations

from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.rewrite.placement.node_times import signature_in
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.tuning.costs import (
    CastTime,
    Costs,
    Machine,
    NodeCost,
    OperationSignature,
    OperationTime,
    TensorType,
    Time,
)

MACHINE = Machine("CPU", "2.21.0", 2)


def exactly(nanoseconds):
    """A time without a spread."""
    return Time(nanoseconds, nanoseconds, nanoseconds, 3)


def signature(op, *shapes, attributes=(), outputs=()):
    """A signature of float32 tensors."""
    return OperationSignature(
        op,
        tuple(attributes),
        tuple(TensorType("float32", shape) for shape in shapes),
        tuple(TensorType("float32", shape) for shape in outputs),
    )


def of_nodes(meta_graph, times, cast, **fields):
    """Costs of the nodes of a graph.

    Args:
        meta_graph: the graph.
        times: nanoseconds in float32 and in half, by name.
        cast: nanoseconds of any cast.
        fields: of the Costs.
    """
    graph = TypedGraph(with_inferred_shapes(meta_graph.graph_def), OpDefs(meta_graph))
    rows = [
        OperationTime(signature_in(graph, name), *map(exactly, pair))
        for name, pair in times.items()
    ]
    nodes = {name: NodeCost(number) for number, name in enumerate(times)}
    casts = [
        CastTime(to, size, exactly(cast)) for to in ("float32", "half") for size in (1, 16, 2**20)
    ]
    values = {"machine": MACHINE, "compute_dtype": "float16", "measurements": tuple(rows)}
    return Costs(**{**values, "casts": tuple(casts), "nodes": nodes, **fields})
