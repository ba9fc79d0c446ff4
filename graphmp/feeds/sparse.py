"""Sparse tensors: three matching tensors of indices, values and the dense shape.

Their names tell them, `NAME/indices`, `NAME/values` and `NAME/shape`, or the op that brings them,
or an op that reads them.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.feeds.shapes import Guess, Shapes
from graphmp.feeds.sources import SPARSE
from graphmp.feeds.uses import carried_from, uses_of_shape
from graphmp.feeds.wanted import Dimensions, Shape, Wanted, default_value, port_of, static_shape
from graphmp.graph.structure.view import GraphView, Port

_INDICES = "indices"  # the end of an input's name


class SparsePart(NamedTuple):
    """One of the three tensors of a sparse placeholder.

    Attributes:
        elements: the number of elements of the sparse tensor, one in each row.
        value: the value to feed; None for the values, which are drawn.
    """

    elements: int
    value: Optional[np.ndarray]


class _Triple(NamedTuple):
    """The tensors of one sparse tensor.

    Attributes:
        indices: the tensor of its indices.
        values: the name of its values' tensor.
        shape: the name of its dense shape's tensor; may be empty.
    """

    indices: Wanted
    values: str
    shape: str


def sparse_parts(
    graph: tf.Graph, view: GraphView, wanted: Sequence[Wanted], guess: Guess
) -> Dict[str, SparsePart]:
    """The parts of sparse tensors among the wanted ones, by name."""
    found: Dict[str, SparsePart] = {}
    triples = [*_named(view, wanted), *_brought(view, wanted), *_read_as_one(graph, view, wanted)]
    for triple in triples:
        if triple.indices.name not in found and triple.values not in found:
            dense = _dense_shape(graph, view, triple, guess)
            found[triple.indices.name] = SparsePart(dense[0], _indices(dense))
            found[triple.values] = SparsePart(dense[0], None)
            found.setdefault(triple.shape, SparsePart(dense[0], np.asarray(dense, np.int64)))
    return found


def _named(view: GraphView, wanted: Sequence[Wanted]) -> Iterator[_Triple]:
    """Placeholders with the names that `tf.sparse_placeholder` gives."""
    placeholders = {
        tensor.node: tensor
        for tensor in wanted
        if view.nodes[tensor.node].op.startswith("Placeholder")
    }
    for node, indices in placeholders.items():
        prefix, slash, last = node.rpartition("/")
        if (
            last == "indices"
            and slash
            and indices.dtype == tf.int64
            and prefix + "/values" in placeholders
        ):
            yield _Triple(indices, prefix + "/values:0", prefix + "/shape:0")


def _brought(view: GraphView, wanted: Sequence[Wanted]) -> Iterator[_Triple]:
    """Results of a source of sparse tensors."""
    for tensor in wanted:
        if view.nodes[tensor.node].op in SPARSE and port_of(tensor).output == 0:
            yield _Triple(tensor, tensor.node + ":1", tensor.node + ":2")


def _read_as_one(graph: tf.Graph, view: GraphView, wanted: Sequence[Wanted]) -> Iterator[_Triple]:
    """Tensors that an op reads as `x_indices`, `x_values` and `x_shape`, by its definition."""
    by_name = {tensor.name: tensor for tensor in wanted}
    for tensor in wanted:
        if tensor.dtype != tf.int64 or (tensor.shape is not None and len(tensor.shape) != 2):
            continue
        for use in uses_of_shape(view, port_of(tensor)):
            arguments = [
                a.name for a in graph.get_operation_by_name(use.node.name).op_def.input_arg
            ]
            inputs = ["%s:%d" % carried_from(view, port) for port in view.inputs(use.node.name)]
            if len(inputs) != len(arguments) or not arguments[use.slot].endswith(_INDICES):
                continue
            named = dict(zip(arguments, inputs))
            prefix = arguments[use.slot][: -len(_INDICES)]
            values = named.get(prefix + "values", "")
            shape = named.get(prefix + "shape") or named.get("output_shape", "")
            if values in by_name:
                yield _Triple(tensor, values, shape)


def _dense_shape(graph: tf.Graph, view: GraphView, triple: _Triple, guess: Guess) -> List[int]:
    """Its dense shape.

    From a constant, and from what reads it: the matrix that it is multiplied by, the logits of a
    CTC loss, the consumers of the dense tensor that is made of it.
    """
    indices = triple.indices
    default, ranks = None, [indices.shape[1] if indices.shape and len(indices.shape) == 2 else None]
    if triple.shape.rpartition(":")[0] in view.nodes:
        shape = graph.get_tensor_by_name(triple.shape)
        default = default_value(shape)
        ranks += static_shape(shape) or ()
    rank = next((size for size in ranks if size), 2)
    dense = guess.sizes(
        (None,) * rank
        if default is None
        else tuple(None if size < 0 else int(size) for size in default)
    )
    for consumer in view.consumers(indices.node):
        if consumer.output == port_of(indices).output:
            required = _required(graph, view, consumer.node)
            if len(required) == rank:
                dense = [new or old for new, old in zip(required, dense)]
    return dense


def _required(graph: tf.Graph, view: GraphView, reader: str) -> Dimensions:
    """The dense shape with which a reader of the indices runs; empty if it takes any."""
    node = view.nodes[reader]
    if node.op == "SparseToDense":
        return Shapes(graph, view).element(Port(reader, 0))
    if node.op == "SparseTensorDenseMatMul":
        rows = (_shape_of_input(graph, view, node, 3) or (None,))[0]
        transposed = "adjoint_a" in node.attr and node.attr["adjoint_a"].b
        return (rows, None) if transposed else (None, rows)
    if node.op == "CTCLoss":
        return (_shape_of_input(graph, view, node, 0) or (None, None))[1], None
    return ()


def _shape_of_input(graph: tf.Graph, view: GraphView, node: tf.NodeDef, slot: int) -> Shape:
    return static_shape(graph.get_tensor_by_name("%s:%d" % view.inputs(node.name)[slot]))


def _indices(dense: Sequence[int]) -> np.ndarray:
    """One element in each row, in order, without duplicates."""
    rows = np.arange(dense[0], dtype=np.int64)
    return np.stack([rows] + [rows % size for size in dense[1:]], axis=1)
