"""Shapes and bytes of tensors, also where the file leaves dimensions open."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.element_counts import ElementCounts
from graphmp.graph.shapes.shapes import (
    UNKNOWN_DIMENSION,
    UNKNOWN_RANK,
    inferred_shapes,
    recorded_dimensions,
    with_inferred_shapes,
)
from graphmp.graph.structure.view import Port
from graphmp.naming import is_own
from graphmp.policy.op_sets import ARGUMENT
from graphmp.rewrite.units import TypedGraph

_SHAPES = "_output_shapes"
_NOTHING: Mapping[Port, Optional[Sequence[int]]] = {}


class ShapeSource(NamedTuple):
    """The source of shapes: the nodes of a graph, and the assumed size of an unknown dimension."""

    graph_def: tf.GraphDef
    unknown: int


def recorded(graph_def: tf.GraphDef, batch_size: int = 0) -> ShapeSource:
    """The shapes of a graph.

    Args:
        graph_def: the graph.
        batch_size: the size of unknown dimensions of placeholders, from which TensorFlow infers
            others, and of dimensions that remain unknown; without it only recorded shapes are used,
            and unknown dimensions count as 32.
    """
    graph_def = _with_own(with_inferred_shapes(graph_def))
    return (
        ShapeSource(_fed(graph_def, batch_size), batch_size)
        if batch_size
        else ShapeSource(graph_def, UNKNOWN_DIMENSION)
    )


def _with_own(graph_def: tf.GraphDef) -> tf.GraphDef:
    """A graph with the shapes of inserted nodes, which no exporter recorded; itself if complete."""
    bare = {node.name for node in graph_def.node if is_own(node.name) and not _is_known(node)}
    if not bare:
        return graph_def
    copy, inferred = tf.GraphDef(), inferred_shapes(graph_def)
    copy.CopyFrom(graph_def)
    for node in copy.node:
        if node.name in bare and inferred.get(node.name):
            node.attr.pop(_SHAPES, None)
            node.attr[_SHAPES].list.shape.extend(inferred[node.name])
    return copy


def _is_known(node: tf.NodeDef) -> bool:
    """Whether the shapes of a node's outputs are recorded in full."""
    return _SHAPES in node.attr and not any(
        shape.unknown_rank or any(dim.size < 0 for dim in shape.dim)
        for shape in node.attr[_SHAPES].list.shape
    )


def completed(shapes: ShapeSource, converted: tf.GraphDef) -> ShapeSource:
    """The shapes of a converted graph: the original's, and those inferred for inserted nodes."""
    known = {node.name for node in shapes.graph_def.node}
    inferred = inferred_shapes(converted)
    graph_def = tf.GraphDef()
    graph_def.CopyFrom(shapes.graph_def)
    for node in converted.node:
        if node.name not in known and node.name in inferred:
            added = graph_def.node.add(name=node.name, op=node.op)
            added.attr[_SHAPES].list.shape.extend(inferred[node.name])
    return ShapeSource(graph_def, shapes.unknown)


def _fed(graph_def: tf.GraphDef, batch_size: int) -> tf.GraphDef:
    """The graph with the shapes that follow from a batch size.

    Unchanged if TensorFlow refuses it.
    """
    bare, copy = tf.GraphDef(), tf.GraphDef()
    bare.CopyFrom(graph_def)
    copy.CopyFrom(graph_def)
    for node in bare.node:
        dimensions = recorded_dimensions(node, 0, batch_size) if node.op == "Placeholder" else None
        if dimensions is not None:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(dimensions).as_proto())
        node.attr.pop(_SHAPES, None)
    inferred = inferred_shapes(bare)
    for node in copy.node:
        if _SHAPES in node.attr:
            for shape, found in zip(node.attr[_SHAPES].list.shape, inferred.get(node.name, ())):
                _fill(shape, found)
    return copy


def _fill(shape: Any, found: Any) -> None:
    """Fill in known dimensions for unknown ones."""
    if shape.unknown_rank:
        shape.CopyFrom(found)
    elif len(shape.dim) == len(found.dim):
        for dim, other in zip(shape.dim, found.dim):
            dim.size = dim.size if dim.size >= 0 else other.size


class Sizes:
    """Dimensions and dtypes of the tensors of a graph."""

    def __init__(
        self,
        graph: TypedGraph,
        shapes: ShapeSource,
        arguments: Mapping[Port, Optional[Sequence[int]]] = _NOTHING,
    ):
        """Shapes are found by node name; casts without record have their input's.

        In a function, arguments have given shapes.
        """
        self._graph = graph
        self._recorded = {node.name: node for node in shapes.graph_def.node}
        self.unknown = shapes.unknown
        self._arguments = arguments
        self._known: Dict[Port, Optional[Sequence[int]]] = dict(arguments)
        self._counts = ElementCounts(graph.view, shapes.graph_def, shapes.unknown)

    def dimensions(self, port: Port) -> Optional[Sequence[int]]:
        """The dimensions, with a number for unknown ones; None if the rank is unknown."""
        if port not in self._known:
            self._known[port] = self._dimensions(port)
        return self._known[port]

    def _dimensions(self, port: Port) -> Optional[List[int]]:
        node = self._recorded.get(port.node, self._graph.view.nodes[port.node])
        if node.op == "Const" and "value" in node.attr:
            return [int(dim.size) for dim in node.attr["value"].tensor.tensor_shape.dim]
        inputs = self._graph.view.inputs(port.node)
        if _SHAPES not in node.attr and node.op in ("Cast", "Enter") and inputs:
            found = self.dimensions(inputs[0])
            return None if found is None else list(found)
        return recorded_dimensions(node, port.output, self.unknown)

    def dtype(self, port: Port) -> int:
        """The dtype of a tensor as a number of the DataType enum; 0 if its op is unknown."""
        signature, node = self._graph.signature(port.node), self._graph.view.nodes[port.node]
        if signature is None:  # 1.15.5 has no op for a function's argument
            return int(node.attr["T"].type) if node.op == ARGUMENT else 0
        return signature.output(port.output).dtype

    def tensor_bytes(self, port: Port) -> int:
        """Bytes of a tensor."""
        count = None if self._arguments else self._counts.recorded(port)
        return array_bytes(self.dtype(port), self.dimensions(port) if count is None else [count])


def array_bytes(dtype: int, dimensions: Optional[Sequence[int]]) -> int:
    """Bytes of an array; 0 for strings and handles; 1,024 elements for an unknown rank."""
    kind = tf.as_dtype(dtype) if dtype else tf.string
    elements = UNKNOWN_RANK if dimensions is None else int(np.prod(dimensions, dtype=np.float64))
    return (
        elements * kind.size
        if kind.is_floating or kind.is_integer or kind.is_bool or kind.is_complex
        else 0
    )
