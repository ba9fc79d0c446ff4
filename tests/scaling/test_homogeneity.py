"""The loss scale in gradient code that is not linear."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.control_flow import control_flow
from tests.support.painting import built
from tests.support.proved import open_claims
from tests.support.scaled import changed, session, trained
from tests.support.training_graphs import square, vectors

FEED = {"x:0": np.random.RandomState(0).randn(8, 12).astype(np.float32)}


def through(backward):
    """A net of two layers between which gradients go through a function."""

    @tf.custom_gradient
    def layer(x):
        return tf.identity(x), backward

    def build():
        tf.set_random_seed(1)
        hidden = layer(tf.layers.dense(vectors(), 16, activation=tf.nn.tanh))
        tf.train.GradientDescentOptimizer(0.1).minimize(
            square(tf.layers.dense(hidden, 4)), name="train"
        )
        tf.global_variables_initializer()

    return built(build)


def in_numpy(x):
    return np.clip(x, -1e-3, 1e-3)


BACKWARD = {
    "reversed": lambda g: -0.5 * g,
    "clipped by value": lambda g: tf.clip_by_value(g, -1e-3, 1e-3),
    "clipped by norm": lambda g: tf.clip_by_norm(g, 1e-2),
    "normalised": lambda g: g / (tf.norm(g) + 1e-6),
    "signs": tf.sign,
    "square roots": lambda g: tf.sign(g) * tf.sqrt(tf.abs(g)),
    "squares": lambda g: g * tf.abs(g),
    "saturated": lambda g: tf.tanh(100 * g),
    "biased": lambda g: g + 1e-3,
    "the larger half": lambda g: tf.where(
        tf.abs(g) > tf.reduce_mean(tf.abs(g)), g, tf.zeros_like(g)
    ),
    "above a threshold": lambda g: tf.where(tf.abs(g) > 1e-3, g, tf.zeros_like(g)),
    "in Python": lambda g: tf.reshape(tf.py_func(in_numpy, [g], tf.float32), tf.shape(g)),
    "printed": lambda g: tf.check_numerics(g, "gradient"),
}


@functools.lru_cache(maxsize=None)
def as_it_is(name):
    """A graph with one of BACKWARD, and its variables before and after three steps."""
    meta_graph = through(BACKWARD[name])
    return (meta_graph, *trained(meta_graph, feed=FEED, as_written=True))


@pytest.mark.parametrize("scale", [64, "dynamic"])
@pytest.mark.parametrize("name", sorted(BACKWARD))
def test_custom_gradients_see_what_they_saw(name, scale):
    meta_graph, start, expected = as_it_is(name)
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=scale)
    assert converted.report["warnings"] == []
    _, found = trained(converted.meta_graph, start=start, feed=FEED, as_written=True)
    assert changed(start, expected) != []
    for variable in expected:
        np.testing.assert_allclose(found[variable], expected[variable], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", sorted(BACKWARD))
def test_custom_gradients_in_half_precision(name):
    if name in ("above a threshold", "signs", "in Python"):
        pytest.skip("rounding turns what is at the edge")
    meta_graph, start, expected = as_it_is(name)
    _, found = trained(graphmp.convert(meta_graph).meta_graph, start=start, feed=FEED)
    for variable in changed(start, expected):
        moved, should = (values[variable] - start[variable] for values in (found, expected))
        assert np.dot(moved.ravel(), should.ravel()) > 0.99 * np.linalg.norm(
            moved
        ) * np.linalg.norm(should)


@pytest.mark.unit
def test_a_comparison_stays_float32():
    """The constant it compares with is multiplied by the scale, and may leave float16's range."""
    meta_graph = through(BACKWARD["clipped by norm"])
    converted = graphmp.convert(meta_graph, loss_scale=2.0**15).meta_graph
    nodes = {node.name: node for node in converted.graph_def.node}
    (largest,) = [
        node for node in nodes.values() if node.op == "Maximum" and "clip_by_norm" in node.name
    ]
    assert largest.attr["T"].type == tf.float32.as_datatype_enum
    assert any("graphmp/loss_scale/rescaled" in text for text in largest.input)


def in_a_loop(backward):
    """A recurrent net through whose steps gradients go by a function."""

    @tf.custom_gradient
    def layer(x):
        return tf.identity(x), backward

    def build():
        tf.set_random_seed(1)
        w = tf.get_variable("w", (12, 12))
        _, y = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, h: (i + 1, layer(tf.tanh(tf.matmul(h, w)))),
            [0, vectors()],
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(square(y), name="train")
        tf.global_variables_initializer()

    return built(build)


def nested(g):
    """A loop inside of each step of the loop of the backward pass."""
    return tf.while_loop(lambda i, _: i < 2, lambda i, h: (i + 1, tf.tanh(30 * h)), [0, g])[1]


@pytest.mark.parametrize("backward", [*sorted(BACKWARD), "nested"])
def test_custom_gradients_in_loops_see_what_they_saw(backward):
    meta_graph = in_a_loop({**BACKWARD, "nested": nested}[backward])
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    assert converted.report["warnings"] == []
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    _, found = trained(converted.meta_graph, start=start, feed=FEED, as_written=True)
    same_updates(start, expected, found)


def test_rows_of_gradients_leave_a_loop_of_functions_as_they_entered_it():
    """The gradient of the rows that a loop reads is a list beside sums that are scaled again."""

    @tf.custom_gradient
    def layer(x):
        return tf.identity(x), BACKWARD["normalised"]

    def build():
        tf.set_random_seed(1)
        w = tf.get_variable("w", (12, 12))
        with control_flow(functions=True):
            rows = tf.layers.dense(vectors(), 12, use_bias=False)
            y = tf.map_fn(lambda row: layer(tf.tanh(tf.matmul(row[None], w))), rows)
            tf.train.GradientDescentOptimizer(0.1).minimize(square(y), name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    assert converted.report["warnings"] == []
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    _, found = trained(converted.meta_graph, start=start, feed=FEED, as_written=True)
    same_updates(start, expected, found)


def same_updates(start, expected, found):
    """Updates agree to 1e-6 of each variable's largest one."""
    assert changed(start, expected) != []
    for name in expected:
        largest = np.abs(expected[name] - start[name]).max()
        np.testing.assert_allclose(
            found[name],
            expected[name],
            rtol=0,
            atol=1e-6 * largest + 1e-7 * np.abs(start[name]).max(),
        )


def loop_of_gradients(start, body):
    """A custom gradient that is computed in a loop."""
    return lambda g: tf.while_loop(
        lambda i, _: i < 3, lambda i, h: (i + 1, body(g, h)), [0, start(g)]
    )[1]


def through_an_array(g):
    """Rows of a gradient and constants, written into one TensorArray."""
    array = tf.TensorArray(tf.float32, 9, clear_after_read=False).write(8, tf.fill([16], 1e-3))
    array = array.scatter(tf.range(8), g)
    return array.stack()[:8] + 0.1 * array.read(8)


LOOPS = {
    "powers": loop_of_gradients(lambda g: g, lambda g, h: 10 * h * tf.abs(g)),
    "powers of ones": loop_of_gradients(tf.ones_like, lambda g, h: h * tf.abs(g)),
    "sums from zero": loop_of_gradients(tf.zeros_like, lambda g, h: h + g),
    "sums from one": loop_of_gradients(tf.ones_like, lambda g, h: h + g),
    "squares go in": loop_of_gradients(lambda g: g * tf.abs(g), lambda g, h: h + g),
    "decays": loop_of_gradients(lambda g: g, lambda g, h: tf.sqrt(tf.abs(h))),
    "through an array": through_an_array,
    "complex numbers": lambda g: tf.real(tf.ifft2d(tf.fft2d(tf.complex(g, tf.zeros_like(g))))),
    "spectra": lambda g: tf.abs(tf.fft(tf.complex(g, tf.ones_like(g)))),
    "spectra in polar form": lambda g: tf.abs(tf.exp(tf.complex(g, tf.zeros_like(g)))),
}


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_what_has_no_one_degree_is_unscaled(name):
    meta_graph = through(LOOPS[name])
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    assert converted.report["warnings"] == []
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    _, found = trained(converted.meta_graph, start=start, feed=FEED, as_written=True)
    same_updates(start, expected, found)


def function(body):
    """A call of a function of one float matrix."""
    return tf.function(
        body, input_signature=[tf.TensorSpec([None, 16], tf.float32)], autograph=False
    )


def looping(step):
    return lambda g: tf.while_loop(
        lambda i, _: i < 3, lambda i, h: (i + 1, step(h)), [tf.constant(0), g]
    )[1]


def branching(yes, no):
    return lambda g: tf.cond(tf.reduce_sum(g) > 0, lambda: yes(g), lambda: no(g))


def listed(g):
    """The rows of a gradient through a TensorList, in a loop."""
    rows = tf.TensorArray(tf.float32, 8, element_shape=[16]).unstack(g)
    made = tf.TensorArray(tf.float32, 8, element_shape=[16])
    return tf.while_loop(
        lambda i, _: i < 8,
        lambda i, a: (i + 1, a.write(i, 2 * rows.read(i))),
        [tf.constant(0), made],
    )[1].stack()


FUNCTIONS = {  # a body, and whether it is homogeneous
    "linear": (lambda g: 2 * tf.reverse(g, [0]), True),
    "squares inside": (
        lambda g: (
            function(lambda h: 2 * h)(g)
            + function(lambda h: tf.square(h) / (tf.abs(h) + tf.norm(h)))(g)
        ),
        False,
    ),
    "nested": (lambda g: function(lambda h: 2 * h)(g) + g, True),
    "saturated": (lambda g: tf.tanh(100 * g), False),
    "clipped": (lambda g: tf.clip_by_value(g, -1e-3, 1e-3), False),
    "with a constant": (lambda g: g + 1e-3, False),
    "signs": (tf.sign, True),
    "a matmul of two": (lambda g: tf.matmul(g, 1e3 * g, transpose_a=True)[:8], False),
    "a loop": (looping(lambda h: 2 * h), True),
    "a loop of powers": (looping(lambda h: 10 * h * tf.abs(h)), False),
    "branches": (branching(lambda g: 2 * g, lambda g: 3 * g), True),
    "branches of two degrees": (branching(lambda g: 2 * g, lambda g: 100 * tf.square(g)), False),
    "a branch of zeros": (branching(lambda g: 2 * g, tf.zeros_like), True),
    "a list": (listed, True),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_bodies_of_functions_are_followed(name):
    body, homogeneous = FUNCTIONS[name]
    meta_graph = through(function(body))
    assert any(node.op.endswith("PartitionedCall") for node in meta_graph.graph_def.node)
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    assert converted.report["warnings"] == []
    assert (
        any("rescaled" in node.name for node in converted.meta_graph.graph_def.node) != homogeneous
    )
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    same_updates(
        start, expected, trained(converted.meta_graph, start=start, feed=FEED, as_written=True)[1]
    )


def test_a_function_called_with_two_degrees():
    twice = function(lambda g: 2 * g)
    meta_graph = through(
        lambda g: (
            twice(g) * tf.sign(g)
            + twice(tf.square(g)) / (tf.abs(g) + tf.norm(g))
            + twice(tf.fill(tf.shape(g), 1e-3))
        )
    )
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    assert converted.report["warnings"] == []
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    same_updates(
        start, expected, trained(converted.meta_graph, start=start, feed=FEED, as_written=True)[1]
    )


def test_the_gradient_of_a_function_is_linear():
    """Even if the function is linear in nothing: the other inputs are forward values."""
    defun = importlib.import_module("tensorflow.python.framework.function").Defun

    def build():
        tf.set_random_seed(1)
        net = defun(tf.float32, tf.float32, func_name="net")(lambda x, w: tf.tanh(tf.matmul(x, w)))
        y = net(vectors(), tf.get_variable("w", (12, 4)))
        y.set_shape((8, 4))
        tf.train.GradientDescentOptimizer(0.1).minimize(square(y), name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    assert any(node.op == "SymbolicGradient" for node in meta_graph.graph_def.node)
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    assert not any("rescaled" in node.name for node in converted.meta_graph.graph_def.node)
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    same_updates(
        start, expected, trained(converted.meta_graph, start=start, feed=FEED, as_written=True)[1]
    )


def gram(g):
    return tf.matmul(g, tf.matmul(g, g, transpose_a=True))


POWERS = {
    "squares": (lambda g: g * tf.abs(g), {"Mul"}),
    "normalised": (lambda g: g / (tf.norm(g) + 1e-6), {"Sqrt"}),
    "one over it": (
        lambda g: tf.square(g) * tf.reciprocal(tf.abs(g) + 1e-3),
        {"Reciprocal", "Square", "Mul"},
    ),
    "a matmul of squares": (
        lambda g: tf.matmul(tf.square(g), tf.eye(16)) / (tf.abs(g) + 1e-3),
        {"Square"},
    ),
    "gradients by each other": (gram, set()),
    "convolved": (
        lambda g: tf.reshape(
            tf.nn.conv2d(
                tf.reshape(g, [1, 8, 16, 1]), tf.reshape(g[:3, :3], [3, 3, 1, 1]), 1, "SAME"
            ),
            [8, 16],
        ),
        set(),
    ),
}


@pytest.mark.parametrize("name", sorted(POWERS))
def test_powers_of_the_scale_are_float32(name):
    """Matmuls and convolutions stay half, and read one factor unscaled."""
    backward, wide = POWERS[name]
    meta_graph = through(backward)
    converted = graphmp.convert(meta_graph, loss_scale=1024)
    nodes = [
        node
        for node in converted.meta_graph.graph_def.node
        if node.name.startswith("gradients/IdentityN_grad/")
    ]
    half = {
        node.name: node.attr["T"].type == tf.float16.as_datatype_enum
        for node in nodes
        if "T" in node.attr
    }
    assert not [node.name for node in nodes if node.op in wide and half[node.name]]
    assert all(half[node.name] for node in nodes if node.op in ("MatMul", "Conv2D"))
    kept = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    same_updates(
        start, expected, trained(kept.meta_graph, start=start, feed=FEED, as_written=True)[1]
    )


def test_gradient_code_of_loops_and_branches_is_linear():
    def build():
        x = vectors(4)
        w = tf.get_variable("w", (12, 12))
        _, y = tf.while_loop(
            lambda i, _: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x]
        )
        y = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.matmul(y, w), lambda: 2 * y)
        cell = tf.nn.rnn_cell.LSTMCell(8)
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.reshape(y, (4, 3, 4)), dtype=tf.float32)
        tf.train.GradientDescentOptimizer(0.1).minimize(square(outputs), name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    feed = {"x:0": FEED["x:0"][:4]}
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=128)
    assert converted.report["warnings"] == []
    start, expected = trained(meta_graph, feed=feed)
    assert changed(expected, trained(converted.meta_graph, start=start, feed=feed)[1]) == []


def test_what_comes_of_zeros_has_any_degree():
    """Second gradients of a piecewise linear function are zeros: nothing scales them."""

    def build():
        x = vectors(4)
        hidden = tf.nn.leaky_relu(tf.layers.dense(x, 8))
        (slope,) = tf.gradients(tf.layers.dense(tf.nn.leaky_relu(tf.layers.dense(hidden, 8)), 1), x)
        penalty = tf.reduce_mean(tf.square(tf.norm(slope, axis=1) - 1))
        tf.train.GradientDescentOptimizer(0.1).minimize(penalty, name="train")
        tf.global_variables_initializer()

    meta_graph, feed = built(build), {"x:0": FEED["x:0"][:4]}
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=128)
    nodes = [node.name for node in converted.meta_graph.graph_def.node]
    assert [name for name in nodes if name.startswith("graphmp/") and "rescaled" in name] == []
    assert open_claims(meta_graph, converted.meta_graph) == {}
    start, expected = trained(meta_graph, feed=feed)
    assert changed(expected, trained(converted.meta_graph, start=start, feed=feed)[1]) == []


def test_a_default_of_zeros_may_be_fed():
    meta_graph = through(lambda g: g + tf.placeholder_with_default(tf.zeros([16]), [16]))
    (fed,) = [n.name for n in meta_graph.graph_def.node if n.op == "PlaceholderWithDefault"]
    feed = dict(FEED, **{fed + ":0": np.full(16, 1e-3, np.float32)})
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=128)
    assert open_claims(meta_graph, converted.meta_graph) == {}
    start, expected = trained(meta_graph, feed=feed)
    assert changed(expected, trained(converted.meta_graph, start=start, feed=feed)[1]) == []


def in_a_collection(meta_graph, names):
    meta_graph.collection_def["gradients to look at"].node_list.value.extend(names)


def in_a_signature(meta_graph, names):
    for name in names:
        meta_graph.signature_def["gradients"].outputs[name].name = name


@pytest.mark.parametrize("named", [None, in_a_collection, in_a_signature])
def test_a_gradient_fetched_by_name_keeps_its_value(named):
    """And so does what is computed from it: the second one is of an activation."""
    meta_graph = through(BACKWARD["reversed"])
    names = [
        "gradients/dense/MatMul_grad/MatMul_1:0",
        "gradients/dense_1/MatMul_grad/MatMul:0",
        "gradients/dense_1/BiasAdd_grad/BiasAddGrad:0",
    ]
    if named:
        named(meta_graph, names)
    converted = graphmp.convert(
        meta_graph, compute_dtype="float32", loss_scale=64, fetch=() if named else names
    )
    with session(meta_graph) as sess:
        start = {v.op.name: sess.run(v) for v in tf.global_variables()}
        expected = sess.run(names, FEED)
    with session(converted.meta_graph, start) as sess:
        assert all((a == b).all() for a, b in zip(sess.run(names, FEED), expected))
    _, after = trained(meta_graph, start=start, feed=FEED)
    assert changed(after, trained(converted.meta_graph, start=start, feed=FEED)[1]) == []
    assert any(
        row["reason"].endswith("computed in gradients/dense_1/MatMul_grad/MatMul_graphmp_scaled")
        for row in converted.report["changes"]
    )


@pytest.mark.parametrize("taken", [False, True])
def test_loops_in_branches_and_branches_in_loops(taken):
    """The nodes that bring the scale into a loop run even if the branch around it is not taken."""

    @tf.custom_gradient
    def layer(x):
        return tf.identity(x), BACKWARD["saturated"]

    def build():
        tf.set_random_seed(1)
        x, w, flag = vectors(), tf.get_variable("w", (12, 12)), tf.placeholder(tf.bool, (), "flag")

        def loop(h, times):
            return tf.while_loop(
                lambda i, _: i < times,
                lambda i, h: (i + 1, layer(tf.tanh(tf.matmul(h, w)))),
                [0, h],
            )[1]

        def step(i, h):
            return i + 1, tf.cond(
                tf.equal(i % 2, 0), lambda: layer(tf.matmul(h, w)), lambda: loop(h, 2)
            )

        y = tf.cond(flag, lambda: loop(x, 3), lambda: tf.matmul(x, w))
        z = tf.while_loop(lambda i, _: i < 4, step, [0, y])[1]
        tf.train.GradientDescentOptimizer(0.1).minimize(square(y) + square(z), name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    feed = {**FEED, "flag:0": taken}
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=1024)
    assert converted.report["warnings"] == []
    start, expected = trained(meta_graph, feed=feed)
    same_updates(start, expected, trained(converted.meta_graph, start=start, feed=feed)[1])


@pytest.mark.parametrize("loss_scale, moved", [(2.0**15, 1.0), ("none", 0.0)])
def test_gradients_in_a_loop_stay_scaled_behind_a_clip(loss_scale, moved):
    """The clip compares with its limit times the scale, inside the loop.

    Values too small for float16 unscaled survive.
    """

    @tf.custom_gradient
    def layer(x):
        return tf.identity(x), lambda g: tf.clip_by_value(g, -1e-3, 1e-3)

    def build():
        tf.set_random_seed(1)
        w = tf.get_variable("w", (12, 12))
        _, y = tf.while_loop(
            lambda i, _: i < 3, lambda i, h: (i + 1, layer(tf.matmul(h, w))), [0, vectors()]
        )
        tf.train.GradientDescentOptimizer(1e6).minimize(1e-7 * square(y), name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    start, expected = trained(meta_graph, steps=1, feed=FEED)
    _, found = trained(
        graphmp.convert(meta_graph, loss_scale=loss_scale).meta_graph,
        steps=1,
        start=start,
        feed=FEED,
    )
    should = expected["w"] - start["w"]
    assert np.linalg.norm(found["w"] - start["w"] - moved * should) < 0.02 * np.linalg.norm(should)
