"""Numbers of elements where TensorFlow records more, or less, of a shape behind a move."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.element_counts import ElementCounts
from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.structure.view import GraphView, Port

pytestmark = pytest.mark.unit


def counts_of(build, **options):
    """The number of elements by name of node, for the nodes that `build` returns."""
    with tf.Graph().as_default():
        tensors = build()
        view = GraphView(tf.train.export_meta_graph().graph_def)
    counts = ElementCounts(view, **options)
    return [counts.of(Port(tensor.op.name, tensor.value_index)) for tensor in tensors]


def capsules():
    """A softmax, a Reshape to a shape that only the run knows, and a Transpose to a known one."""
    logits, shape = tf.placeholder(tf.float32, (None, None)), tf.placeholder(tf.int32, (5,))
    weights = tf.nn.softmax(logits)
    parts = tf.reshape(weights, shape)
    moved = tf.transpose(parts, [0, 2, 1, 3, 4])
    moved.set_shape((None, 1152, 10, 1, 1))
    return weights, parts, moved


def positions():
    """Batch and time joined in one dimension for a matmul: 32 x 32 rows, not 32."""
    sequence = tf.placeholder(tf.float32, (None, None, 64))
    rows = tf.reshape(sequence, (-1, 64))
    return sequence, rows, tf.nn.relu(rows), tf.matmul(rows, tf.zeros((64, 8)))


def squeezed():
    image = tf.placeholder(tf.float32, (None, 28, 28, 1))
    return image, tf.squeeze(image, 3), tf.reshape(image, (-1, 784))


def unlikely():
    """Of two shapes without a known dimension, the one with three unknown ones or fewer."""
    ids = tf.placeholder(tf.float32, (None, None))
    return ids, tf.reshape(ids, tf.placeholder(tf.int32, (5,)))


def halves():
    """The second output of a Split has no counterpart in its input; a constant is its value."""
    one, other = tf.split(tf.placeholder(tf.float32, (None, 8)), 2, axis=1)
    return one, tf.tanh(other), tf.constant([[1.0, 2.0]])


@pytest.mark.parametrize(
    "build, expected",
    [
        (capsules, [32 * 11520] * 3),
        (positions, [32 * 32 * 64] * 3 + [32 * 8]),
        (squeezed, [32 * 784] * 3),
        (unlikely, [32 * 32] * 2),
        (halves, [32 * 4, 32 * 4, 2]),
    ],
)
def test_what_is_known_of_one_holds_for_all(build, expected):
    assert counts_of(build) == expected


def test_the_size_of_an_unknown_dimension():
    assert counts_of(squeezed, unknown=2) == [2 * 784] * 3


def test_nothing_is_known_of_an_unknown_rank():
    def build():
        return (tf.reshape(tf.placeholder(tf.float32), tf.placeholder(tf.int32)),)

    with tf.Graph().as_default() as graph:
        (tensor,) = build()
    view = GraphView(with_inferred_shapes(graph.as_graph_def()))
    assert ElementCounts(view).recorded(Port(tensor.op.name, 0)) is None
    assert counts_of(build) == [1024]


def test_shapes_of_another_graph_by_name():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, (None, 6), name="x")
        tf.cast(x, tf.float16, name="half")
    bare = graph.as_graph_def()
    shapes = with_inferred_shapes(bare)
    del shapes.node[-1]  # the cast was inserted later
    assert ElementCounts(GraphView(bare), shapes).of(Port("half", 0)) == 32 * 6
