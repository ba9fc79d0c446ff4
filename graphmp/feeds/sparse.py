"""Sparse placeholders: three matching tensors, `NAME/indices`, `NAME/values`, `NAME/shape`."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.feeds.shapes import Guess
from graphmp.feeds.wanted import Wanted, default_value, static_shape
from graphmp.graph.structure.view import GraphView


class SparsePart(NamedTuple):
    """One of the three tensors of a sparse placeholder.

    Attributes:
        elements: the number of elements of the sparse tensor, one in each row.
        value: the value to feed; None for the values, which are drawn.
    """

    elements: int
    value: Optional[np.ndarray]


def sparse_parts(
    graph: tf.Graph, view: GraphView, wanted: Sequence[Wanted], guess: Guess
) -> Dict[str, SparsePart]:
    """The parts of sparse tensors among the wanted ones, by name."""
    placeholders = {
        tensor.node: tensor
        for tensor in wanted
        if view.nodes[tensor.node].op.startswith("Placeholder")
    }
    found = {}
    for node, indices in placeholders.items():
        prefix, slash, last = node.rpartition("/")
        if (
            last == "indices"
            and slash
            and indices.dtype == tf.int64
            and prefix + "/values" in placeholders
        ):
            dense = _dense_shape(graph, view, prefix, indices, guess)
            found[indices.name] = SparsePart(dense[0], _indices(dense))
            found[prefix + "/values:0"] = SparsePart(dense[0], None)
            found[prefix + "/shape:0"] = SparsePart(dense[0], np.asarray(dense, np.int64))
    return found


def _dense_shape(
    graph: tf.Graph, view: GraphView, prefix: str, indices: Wanted, guess: Guess
) -> List[int]:
    """Its dense shape: from a constant, or its width from the matrix that it is multiplied by."""
    default, ranks = None, [indices.shape[1] if indices.shape and len(indices.shape) == 2 else None]
    if prefix + "/shape" in view.nodes:
        shape = graph.get_tensor_by_name(prefix + "/shape:0")
        default = default_value(shape)
        ranks += static_shape(shape) or ()
    rank = next((size for size in ranks if size), 2)
    dense = guess.sizes(
        (None,) * rank
        if default is None
        else tuple(None if size < 0 else int(size) for size in default)
    )
    for consumer in view.consumers(indices.node):
        node = view.nodes[consumer.node]
        rows = (
            static_shape(graph.get_tensor_by_name("%s:%d" % view.inputs(node.name)[3]))
            if node.op == "SparseTensorDenseMatMul"
            else None
        )
        if rows and rows[0] is not None and rank == 2:
            dense[0 if "adjoint_a" in node.attr and node.attr["adjoint_a"].b else 1] = rows[0]
    return dense


def _indices(dense: Sequence[int]) -> np.ndarray:
    """One element in each row, in order, without duplicates."""
    rows = np.arange(dense[0], dtype=np.int64)
    return np.stack([rows] + [rows % size for size in dense[1:]], axis=1)
