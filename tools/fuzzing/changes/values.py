"""Changes of values: dtypes, constants, shapes, attributes."""

from __future__ import annotations

import random
from typing import Any

import tensorflow.compat.v1 as tf

from fuzzing.changes.nodes import FLOAT, nodes_of, some


def attribute(rng: random.Random, meta_graph: Any) -> None:
    """An attribute of another node of the same op, or a flag the other way round."""
    node = rng.choice(nodes_of(meta_graph))
    alike = [other for other in nodes_of(meta_graph, node.op) if other is not node]
    keys = sorted(node.attr)
    if not keys:
        return
    key = rng.choice(keys)
    if node.attr[key].WhichOneof("value") == "b":
        node.attr[key].b = not node.attr[key].b
    elif alike and key in rng.choice(alike).attr:
        node.attr[key].CopyFrom(rng.choice(alike).attr[key])
    else:
        del node.attr[key]


def constants(rng: random.Random, meta_graph: Any) -> None:
    """Constants that half precision doesn't hold, or of no elements."""
    for node in some(rng, nodes_of(meta_graph, "Const"), 0.3):
        tensor = node.attr["value"].tensor
        if tensor.dtype != FLOAT:
            continue
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        number = rng.choice([float("nan"), float("inf"), 1e-40, -0.0, 1e38, 65520.0, 5e-8])
        tensor.CopyFrom(tf.make_tensor_proto(number, tf.float32, shape))


def dtype(rng: random.Random, meta_graph: Any) -> None:
    """Another dtype, of one node, of many, or of all."""
    new = rng.choice([2, 3, 9, 14, 19])
    share = rng.choice([0.02, 0.3, 1.1])
    for node in some(rng, nodes_of(meta_graph), share):
        for value in node.attr.values():
            if value.WhichOneof("value") == "type" and value.type == FLOAT:
                value.type = new
            elif value.WhichOneof("value") == "tensor" and value.tensor.dtype == FLOAT:
                array = tf.make_ndarray(value.tensor).astype(tf.as_dtype(new).as_numpy_dtype)
                value.tensor.CopyFrom(tf.make_tensor_proto(array))


def shapes(rng: random.Random, meta_graph: Any) -> None:
    """Placeholders and records of shapes that contradict, or are unknown."""
    for node in some(rng, nodes_of(meta_graph), 0.2):
        if "_output_shapes" in node.attr and rng.random() < 0.5:
            for shape in node.attr["_output_shapes"].list.shape:
                shape.dim.add(size=7)
        elif node.op == "Placeholder":
            shape = node.attr["shape"].shape
            del shape.dim[:]
            shape.unknown_rank = rng.random() < 0.5
