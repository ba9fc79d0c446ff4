"""The number of elements of tensors by recorded shapes; unknown dimensions count as 32."""

from __future__ import annotations

import functools
import gc
import operator
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.glass import guarded, raise_memory_error
from graphmp.graph.io.older import imported

UNKNOWN_DIMENSION = 32
UNKNOWN_RANK = UNKNOWN_DIMENSION**2
_SHAPES = "_output_shapes"


def recorded_elements(node: tf.NodeDef, output: int) -> int:
    """Elements of one output by the node's `_output_shapes`; for a constant by its value."""
    if node.op == "Const" and "value" in node.attr:
        return elements(node.attr["value"].tensor.tensor_shape)
    shape = recorded_shape(node, output)
    return UNKNOWN_RANK if shape is None else elements(shape)


def recorded_size(node: tf.NodeDef, output: int) -> Optional[int]:
    """Elements of one output by the node's `_output_shapes`; None if a dimension is unknown."""
    sizes = recorded_dimensions(node, output, -1)
    return None if sizes is None or -1 in sizes else int(np.prod(sizes, dtype=np.float64))


def recorded_dimensions(node: tf.NodeDef, output: int, unknown: int) -> Optional[List[int]]:
    """Dimensions of one output by the node's `_output_shapes`; None if the rank is unknown.

    Unknown dimensions are `unknown`.
    """
    shape = recorded_shape(node, output)
    if shape is None or shape.unknown_rank:
        return None
    return [unknown if dim.size < 0 else int(dim.size) for dim in shape.dim]


def recorded_shape(node: tf.NodeDef, output: int) -> Optional[Any]:
    """The TensorShapeProto of one output in the node's `_output_shapes`; None if missing."""
    attributes = node.attr
    shapes = attributes[_SHAPES].list.shape if _SHAPES in attributes else ()
    return shapes[output] if output < len(shapes) else None


def dimensions_of(shape: Any) -> Optional[Tuple[Optional[int], ...]]:
    """Dimensions of a TensorShapeProto, None where unknown; None if the rank is."""
    if shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else int(dim.size) for dim in shape.dim)


def records_shapes(graph_def: tf.GraphDef) -> bool:
    """Whether a graph's nodes have `_output_shapes`.

    Graphs saved by TensorFlow's exporter do, frozen ones may not.
    """
    return any(_SHAPES in node.attr for node in graph_def.node)


def inferred_shapes(graph_def: tf.GraphDef) -> Dict[str, Sequence[Any]]:
    """Output shapes by node, inferred by TensorFlow's import; empty if the import fails."""
    return guarded(lambda: _inferred(graph_def), "inferring shapes", graph_def)


def _inferred(graph_def: tf.GraphDef) -> Dict[str, Sequence[Any]]:
    try:
        graph = imported(_imported, graph_def)
    except Exception as error:  # TensorFlow raises errors of any type: sizes are then unknown
        raise_memory_error(error)
        return {}
    return {
        op.name: [tensor.shape.as_proto() for tensor in op.outputs] for op in graph.get_operations()
    }


def _imported(graph_def: tf.GraphDef) -> tf.Graph:
    copied = tf.GraphDef()
    copied.CopyFrom(graph_def)  # importing writes defaults into the given graph
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(copied, name="")
    return graph


def with_inferred_shapes(graph_def: tf.GraphDef) -> tf.GraphDef:
    """The graph itself if it records shapes, else a copy that does.

    For measuring, not for writing.
    """
    if records_shapes(graph_def):
        return graph_def
    copy = tf.GraphDef()
    copy.CopyFrom(graph_def)
    shapes = inferred_shapes(graph_def)
    gc.collect(0)  # TensorFlow's graphs refer to themselves
    for node in copy.node:
        if shapes.get(node.name):
            node.attr[_SHAPES].list.shape.extend(shapes[node.name])
    return copy


def elements(shape: Any) -> int:
    """Elements of a tensor by its TensorShapeProto; an unknown dimension counts as 32."""
    if shape.unknown_rank:
        return UNKNOWN_RANK
    sizes = [UNKNOWN_DIMENSION if dim.size < 0 else dim.size for dim in shape.dim]
    return int(functools.reduce(operator.mul, sizes, 1.0))  # ten times as fast as numpy's product
