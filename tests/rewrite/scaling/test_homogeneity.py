"""How the loss scale passes through gradient code that is not linear, and what is done about it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.painting import built
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
        tf.train.GradientDescentOptimizer(0.1).minimize(square(tf.layers.dense(hidden, 4)), name="train")
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
    "the larger half": lambda g: tf.where(tf.abs(g) > tf.reduce_mean(tf.abs(g)), g, tf.zeros_like(g)),
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
        assert np.dot(moved.ravel(), should.ravel()) > 0.99 * np.linalg.norm(moved) * np.linalg.norm(should)


@pytest.mark.unit
def test_a_comparison_stays_float32():
    """The constant it compares with is multiplied by the scale, and may leave float16's range."""
    meta_graph = through(BACKWARD["clipped by norm"])
    converted = graphmp.convert(meta_graph, loss_scale=2.0**15).meta_graph
    nodes = {node.name: node for node in converted.graph_def.node}
    (largest,) = [node for node in nodes.values() if node.op == "Maximum" and "clip_by_norm" in node.name]
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
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, layer(tf.tanh(tf.matmul(h, w)))), [0, vectors()])
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


def same_updates(start, expected, found):
    """Updates agree to 1e-6 of each variable's largest one."""
    assert changed(start, expected) != []
    for name in expected:
        largest = np.abs(expected[name] - start[name]).max()
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6 * largest + 1e-7 * np.abs(start[name]).max())


def loop_of_gradients(start, body):
    """A custom gradient that is computed in a loop of its own."""
    return lambda g: tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, body(g, h)), [0, start(g)])[1]


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


def test_gradient_code_of_loops_and_branches_is_linear():
    def build():
        x = vectors(4)
        w = tf.get_variable("w", (12, 12))
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x])
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


def test_a_gradient_fetched_by_name_keeps_its_value():
    meta_graph = through(BACKWARD["reversed"])
    names = ["gradients/dense/MatMul_grad/MatMul_1:0", "gradients/dense_1/BiasAdd_grad/BiasAddGrad:0"]
    converted = graphmp.convert(meta_graph, compute_dtype="float32", loss_scale=64, fetch=names)
    with session(meta_graph) as sess:
        start = {v.op.name: sess.run(v) for v in tf.global_variables()}
        expected = sess.run(names, FEED)
    with session(converted.meta_graph, start) as sess:
        assert all((a == b).all() for a, b in zip(sess.run(names, FEED), expected))
    _, after = trained(meta_graph, start=start, feed=FEED)
    assert changed(after, trained(converted.meta_graph, start=start, feed=FEED)[1]) == []
