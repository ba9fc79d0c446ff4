"""Which dimensions are known to be equal: by hand on small graphs, and against shapes seen when graphs run."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphmp.graph.shapes import with_inferred_shapes
from graphmp.graph.symbolic_shapes import SymbolicShapes
from graphmp.graph.view import GraphView, Port


def shapes_of(graph):
    return SymbolicShapes(GraphView(with_inferred_shapes(graph.as_graph_def())))


def dims(shapes, tensor):
    return shapes.of(Port(tensor.op.name, tensor.value_index))


CASES = {
    "elementwise": lambda x, y: (tf.tanh(x) * x, x, True),
    "a bias": lambda x, y: (tf.nn.relu(x + tf.ones([6])), x, True),
    "two placeholders": lambda x, y: (x + y, x, False),
    "a scalar": lambda x, y: (0.5 * x + 1.0, x, True),
    "made like it": lambda x, y: (tf.random_uniform(tf.shape(x)), x, True),
    "a column": lambda x, y: (tf.matmul(x, tf.ones([6, 1])) * x, x, True),
    "matmul": lambda x, y: (tf.matmul(x, tf.ones([6, 6])), x, True),
    "transposed twice": lambda x, y: (tf.transpose(tf.transpose(x)), x, True),
    "transposed": lambda x, y: (tf.transpose(x), x, False),
    "flattened": lambda x, y: (tf.reshape(tf.reshape(x, [-1, 3]), [-1, 6]), x, True),
    "flattened by parts": lambda x, y: (tf.reshape(x, [tf.shape(x)[0] * 2, 3]), tf.reshape(x, [-1, 3]), True),
    "stacked": lambda x, y: (tf.reshape(x, tf.stack([tf.shape(x)[0], 6])), x, True),
    "a slice of a shape": lambda x, y: (tf.reshape(x, tf.concat([tf.shape(x)[:1], [6]], 0)), x, True),
    "doubled": lambda x, y: (tf.concat([x, x], 0), x, False),
    "side by side": lambda x, y: (tf.concat([x, x], 1)[:, :6] * 1.0, x, False),
    "rows of a table": lambda x, y: (tf.gather(tf.ones([9, 6]), tf.cast(x[:, 0], tf.int32)), x, False),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_equal_dimensions(case):
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 6])
        made, like, equal = CASES[case](x, y)
    shapes = shapes_of(graph)
    assert (dims(shapes, made) == dims(shapes, like)) is equal


def test_unknown_ranks_stay_unknown():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32)
        tanh = tf.tanh(x)
    assert dims(shapes_of(graph), tanh) is None


def broadcast_sums(graph):
    return [op.name for op in graph.get_operations() if op.type == "Sum" and op.inputs[1].op.type == "BroadcastGradientArgs"]


def gradients_of(build):
    """A graph with the gradients of a sum of what `build` makes of two placeholders. TensorFlow leaves sums out where it knows shapes."""
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float32, [None, 6], name="x"), tf.placeholder(tf.float32, [None, 6], name="y")
        tf.gradients(tf.reduce_sum(build(x, y)), [x, y])
    return graph


def test_a_product_with_itself_sums_nothing():
    graph = gradients_of(lambda x, y: x * tf.tanh(x) * tf.tanh(y))
    shapes = shapes_of(graph)
    found = {name: shapes.reduces_nothing(name) for name in broadcast_sums(graph)}
    assert found
    assert {name for name, nothing in found.items() if nothing} == {name for name in found if "mul_grad" in name}


def test_a_graph_deeper_than_pythons_stack():
    with tf.Graph().as_default() as graph:
        x = top = tf.placeholder(tf.float32, [None, 6])
        for _ in range(3000):
            top = tf.identity(top)
    shapes = shapes_of(graph)
    assert dims(shapes, top) == dims(shapes, x)


def test_a_loop_has_symbols_of_its_own():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 6])
        grown = tf.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, tf.concat([v, v], 0)), (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 6]))
        )[1]
    shapes = shapes_of(graph)
    assert dims(shapes, grown) != dims(shapes, x)


STEPS = [
    lambda a, b: a + b,
    lambda a, b: a * tf.ones([4]),
    lambda a, b: tf.tanh(a),
    lambda a, b: tf.transpose(a),
    lambda a, b: tf.reshape(a, tf.shape(b)),
    lambda a, b: tf.reshape(a, [-1, 4]),
    lambda a, b: tf.reshape(a, [-1, 1]),
    lambda a, b: tf.reshape(a, tf.stack([tf.shape(a)[1], tf.shape(a)[0]])),
    lambda a, b: tf.matmul(a, b, transpose_b=True),
    lambda a, b: tf.matmul(a, b, transpose_a=True),
    lambda a, b: tf.concat([a, b], 0),
    lambda a, b: tf.concat([a, b], 1),
    lambda a, b: tf.fill(tf.shape(b), 1.0),
    lambda a, b: tf.where(tf.less(a, a), a, a),
]


@given(
    st.lists(st.tuples(st.sampled_from(range(len(STEPS))), st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=9),
    st.tuples(st.sampled_from([1, 4, 5]), st.sampled_from([1, 4, 5])),
)
@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_equal_symbols_are_equal_sizes(chosen, rows):
    """Of graphs that run, every two dimensions of one symbol have one size, and numbers are the sizes."""
    with tf.Graph().as_default() as graph:
        made = [tf.placeholder(tf.float32, [None, 4], name="a"), tf.placeholder(tf.float32, [None, 4], name="b")]
        fed = {made[0]: np.ones([rows[0], 4], np.float32), made[1]: np.ones([rows[1], 4], np.float32)}
        for step, first, second in chosen:
            try:
                made.append(STEPS[step](made[first % len(made)], made[second % len(made)]))
            except ValueError:  # shapes that can't be put together
                continue
        shapes = shapes_of(graph)
        seen = {}
        with tf.Session(graph=graph) as session:
            for tensor in made:
                try:
                    sizes = session.run(tensor, fed).shape
                except tf.errors.InvalidArgumentError:  # of this size they can't be put together
                    continue
                found = dims(shapes, tensor)
                assert len(found) == len(sizes)
                for symbol, size in zip(found, sizes):
                    assert seen.setdefault(symbol, size) == size
                    assert symbol == size or not isinstance(symbol, int)
