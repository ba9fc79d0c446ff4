"""Which dimensions are known to be equal.

By hand on small graphs, and against shapes seen when graphs run.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.shapes.symbolic_shapes import SymbolicShapes
from graphmp.graph.state.steady_variables import steady_variables
from graphmp.graph.structure.view import GraphView, Port


def shapes_of(graph):
    view = GraphView(with_inferred_shapes(graph.as_graph_def()))
    return SymbolicShapes(view, steady_variables(view))


def dims(shapes, tensor):
    return shapes.of(Port(tensor.op.name, tensor.value_index))


def _losses(x):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.cast(x[:, 0], tf.int32), logits=x
    )


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
    "flattened by parts": lambda x, y: (
        tf.reshape(x, [tf.shape(x)[0] * 2, 3]),
        tf.reshape(x, [-1, 3]),
        True,
    ),
    "stacked": lambda x, y: (tf.reshape(x, tf.stack([tf.shape(x)[0], 6])), x, True),
    "a slice of a shape": lambda x, y: (
        tf.reshape(x, tf.concat([tf.shape(x)[:1], [6]], 0)),
        x,
        True,
    ),
    "doubled": lambda x, y: (tf.concat([x, x], 0), x, False),
    "side by side": lambda x, y: (tf.concat([x, x], 1)[:, :6] * 1.0, x, True),
    "split": lambda x, y: (tf.concat(tf.split(x, 3, 1)[1:] + [x[:, :2]], 1), x, True),
    "split by sizes": lambda x, y: (tf.tile(tf.split(x, [4, 2], 1)[1], [1, 3]), x, True),
    "split rows": lambda x, y: (*tf.split(x, 2), True),
    "split rows of another": lambda x, y: (tf.split(x, 2)[0], tf.split(y, 2)[0], False),
    "rows left by a slice": lambda x, y: (
        tf.slice(x, [1, 0], [-1, 6]),
        tf.slice(x, [1, 0], [-1, 6]),
        True,
    ),
    "all rows of a slice": lambda x, y: (tf.tile(tf.slice(x, [0, 1], [-1, 2]), [1, 3]), x, True),
    "a new axis": lambda x, y: (x[:, tf.newaxis, 0] * x, x, False),
    "one column": lambda x, y: (tf.expand_dims(x[:, 2], 1) * x, x, True),
    "some rows": lambda x, y: (x[1:], x, False),
    "packed and unpacked": lambda x, y: (tf.unstack(tf.stack([x, x]))[1], x, True),
    "expanded and squeezed": lambda x, y: (tf.squeeze(tf.expand_dims(x, 1), [1]), x, True),
    "a mean": lambda x, y: (x - tf.reduce_mean(x, 1, keepdims=True), x, True),
    "a mean of rows": lambda x, y: (x - tf.reduce_mean(x, 0, keepdims=True), x, True),
    "one hot": lambda x, y: (tf.one_hot(tf.cast(tf.reduce_max(x, 1), tf.int32), 6), x, True),
    "a batch of matrices": lambda x, y: (
        tf.reduce_sum(tf.matmul(tf.expand_dims(x, 2), tf.expand_dims(x, 1)), 1),
        x,
        True,
    ),
    "a loss of each row": lambda x, y: (tf.expand_dims(_losses(x), 1) * x, x, True),
    "one of two": lambda x, y: (
        tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: tf.tanh(x)),
        x,
        True,
    ),
    "one of two others": lambda x, y: (
        tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: y),
        x,
        False,
    ),
    "rows of a table": lambda x, y: (
        tf.gather(tf.ones([9, 6]), tf.cast(x[:, 0], tf.int32)),
        x,
        True,
    ),
}


@pytest.mark.unit
@pytest.mark.parametrize("case", sorted(CASES))
def test_equal_dimensions(case):
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 6])
        made, like, equal = CASES[case](x, y)
    shapes = shapes_of(graph)
    assert (dims(shapes, made) == dims(shapes, like)) is equal


@pytest.mark.unit
def test_unknown_ranks_stay_unknown():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32)
        tanh = tf.tanh(x)
    assert dims(shapes_of(graph), tanh) is None


def test_a_slice_of_more_axes_than_were_recorded():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 4], "x")
        graph_def = with_inferred_shapes(tf.identity(x[:, :], "y").graph.as_graph_def())
    for node in graph_def.node:
        if node.name == "x":
            for key in ("shape", "_output_shapes"):
                node.attr.pop(key, None)
            node.attr["_output_shapes"].list.shape.add().dim.add(size=-1)
        else:
            node.attr.pop("_output_shapes", None)
    view = GraphView(graph_def)
    shapes = SymbolicShapes(view, steady_variables(view))
    assert len(shapes.of(Port("x", 0))) == 1 and shapes.of(Port("y", 0)) is None


def broadcast_sums(graph):
    return [
        op.name
        for op in graph.get_operations()
        if op.type == "Sum" and op.inputs[1].op.type == "BroadcastGradientArgs"
    ]


def gradients_of(build):
    """A graph with the gradients of the sum of `build(x, y)` for two placeholders.

    TensorFlow omits the sums for broadcasting where it knows shapes.
    """
    with tf.Graph().as_default() as graph:
        x, y = (
            tf.placeholder(tf.float32, [None, 6], name="x"),
            tf.placeholder(tf.float32, [None, 6], name="y"),
        )
        tf.gradients(tf.reduce_sum(build(x, y)), [x, y])
    return graph


@pytest.mark.unit
def test_a_product_with_itself_sums_nothing():
    graph = gradients_of(lambda x, y: x * tf.tanh(x) * tf.tanh(y))
    shapes = shapes_of(graph)
    found = {name: shapes.reduces_nothing(name) for name in broadcast_sums(graph)}
    assert found
    assert {name for name, nothing in found.items() if nothing} == {
        name for name in found if "mul_grad" in name
    }


@pytest.mark.unit
def test_a_graph_deeper_than_pythons_stack():
    with tf.Graph().as_default() as graph:
        x = top = tf.placeholder(tf.float32, [None, 6])
        for _ in range(sys.getrecursionlimit() + 500):
            top = tf.identity(top)
    shapes = shapes_of(graph)
    assert dims(shapes, top) == dims(shapes, x)


@pytest.mark.unit
def test_a_loop_has_symbols_of_its_own():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 6])
        grown = tf.while_loop(
            lambda i, v: i < 3,
            lambda i, v: (i + 1, tf.concat([v, v], 0)),
            (0, x),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 6])),
        )[1]
    shapes = shapes_of(graph)
    assert dims(shapes, grown) != dims(shapes, x)


def loop_of(body, *variables):
    """The values of variables of unknown sizes after three iterations."""
    unknown = [tf.TensorShape([])] + [tf.TensorShape([None, None])] * len(variables)
    return tf.while_loop(
        lambda i, *v: i < 3,
        lambda i, *v: [i + 1, *body(*v)],
        [0, *variables],
        shape_invariants=unknown,
    )[1:]


LOOPS = {
    "kept": (lambda a, b: (tf.tanh(a), b * 2.0), "ab"),
    "one grows": (lambda a, b: (tf.concat([a, a], 0), tf.tanh(b)), "-b"),
    "both take turns": (lambda a, b: (b, a), "--"),
    "one follows the other": (lambda a, b: (tf.tanh(b), tf.tanh(b)), "-b"),
    "one follows what grows": (lambda a, b: (tf.concat([a, a], 0), tf.zeros_like(a)), "--"),
    "its own transpose": (lambda a, b: (tf.transpose(a), b), "-b"),
}


@pytest.mark.unit
@pytest.mark.parametrize("case", sorted(LOOPS))
def test_a_loop_variable_that_keeps_its_shape_has_that_of_what_enters(case):
    body, kept = LOOPS[case]
    with tf.Graph().as_default() as graph:
        start = [tf.placeholder(tf.float32, [None, None], name=name) for name in "ab"]
        end = loop_of(body, *start)
    shapes = shapes_of(graph)
    assert [dims(shapes, a) == dims(shapes, b) for a, b in zip(end, start)] == [
        letter != "-" for letter in kept
    ]


@pytest.mark.unit
def test_a_loop_in_a_loop():
    with tf.Graph().as_default() as graph:
        start = tf.placeholder(tf.float32, [None, None])
        (inner_grows,) = loop_of(lambda a: loop_of(lambda b: [tf.concat([b, b], 0)], a), start)
        (both_keep,) = loop_of(lambda a: loop_of(lambda b: [tf.tanh(b) + a], a), start)
    shapes = shapes_of(graph)
    assert dims(shapes, both_keep) == dims(shapes, start) != dims(shapes, inner_grows)


@pytest.mark.unit
@pytest.mark.parametrize("known", [True, False])
def test_the_gradients_of_an_rnn_sum_nothing_where_its_batch_is_that_of_its_state(known):
    """Inside the loop gates are products of tensors of one shape.

    Saved shapes are popped from Stacks, rows are read from a TensorArray.
    """
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, None, 6])
        size = tf.shape(x)[0] if known else tf.placeholder(tf.int32, [])
        cell = tf.nn.rnn_cell.LSTMCell(5, state_is_tuple=True)
        outputs, _ = tf.nn.dynamic_rnn(cell, x, initial_state=cell.zero_state(size, tf.float32))
        tf.gradients(tf.reduce_sum(outputs), tf.trainable_variables())
    shapes = shapes_of(graph)
    sums = [name for name in broadcast_sums(graph) if "/while/" in name and "add_grad" not in name]
    assert sums
    assert all(shapes.reduces_nothing(name) for name in sums) is known


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
    lambda a, b: tf.split(a, 2, 1)[1],
    lambda a, b: tf.slice(a, [1, 0], [-1, 2]),
    lambda a, b: a[:, 1:],
    lambda a, b: tf.expand_dims(a[:, 0], 1),
    lambda a, b: tf.tile(a, [2, tf.shape(b)[1]]),
    lambda a, b: tf.reduce_mean(a, 0, keepdims=True),
    lambda a, b: tf.stack([tf.reduce_sum(a, 1), tf.reduce_sum(a, -1)], 1),
    lambda a, b: tf.squeeze(
        tf.matmul(tf.expand_dims(a, 0), tf.expand_dims(b, 0), transpose_b=True), [0]
    ),
    lambda a, b: tf.cond(tf.reduce_sum(a) > 0, lambda: a, lambda: b),
    lambda a, b: loop_of(lambda c, d: (tf.tanh(c), tf.concat([d, c], 1)), a, b)[1],
    lambda a, b: loop_of(lambda c, d: (c + d, tf.tanh(d)), a, b)[0],
    lambda a, b: loop_of(lambda c, d: (tf.transpose(d), c), a, b)[1],
]


@given(
    st.lists(
        st.tuples(st.sampled_from(range(len(STEPS))), st.integers(0, 9), st.integers(0, 9)),
        min_size=3,
        max_size=9,
    ),
    st.tuples(st.sampled_from([1, 4, 5]), st.sampled_from([1, 4, 5])),
)
@settings(max_examples=75)
def test_equal_symbols_are_equal_sizes(chosen, rows):
    """In graphs that run, dimensions with one symbol have one size, and numbers are the sizes."""
    with tf.Graph().as_default() as graph:
        made = [
            tf.placeholder(tf.float32, [None, 4], name="a"),
            tf.placeholder(tf.float32, [None, 4], name="b"),
        ]
        fed = {
            made[0]: np.ones([rows[0], 4], np.float32),
            made[1]: np.ones([rows[1], 4], np.float32),
        }
        for step, first, second in chosen:
            try:
                made.append(STEPS[step](made[first % len(made)], made[second % len(made)]))
            except ValueError:  # shapes that can't be put together
                continue
        shapes = shapes_of(graph)
        seen = {}
        as_written = (
            tf.ConfigProto()
        )  # TensorFlow's own rewrites multiply some matrices that don't fit (2.21)
        as_written.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(graph=graph, config=as_written) as session:
            for tensor in made:
                try:
                    sizes = session.run(tensor, fed).shape
                except tf.errors.InvalidArgumentError:  # of this size they can't be put together
                    continue
                found = dims(shapes, tensor)
                if found is None:
                    continue
                assert len(found) == len(sizes)
                for symbol, size in zip(found, sizes):
                    assert seen.setdefault(symbol, size) == size
                    assert symbol == size or not isinstance(symbol, int)
