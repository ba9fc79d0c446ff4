"""Where the recipe doesn't fit a decorated function.

Its float32 graph is converted in the session, and what it returned trains.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.models import TARGETS, VECTORS, vectors
from tests.support.training import load, state


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


def constant(x):
    return tf.layers.dense(tf.nn.relu(tf.layers.dense(x * tf.constant(2.0), 16)), 1)


def keras_layer(x):
    return tf.keras.layers.Dense(1)(tf.keras.layers.Dense(16, activation="relu")(x))


def zero_state(x):
    cell = tf.nn.rnn_cell.BasicLSTMCell(8)
    outputs, _ = tf.nn.dynamic_rnn(
        cell, tf.reshape(x, [-1, 3, 4]), initial_state=cell.zero_state(8, tf.float32)
    )
    return tf.layers.dense(outputs[:, -1], 1)


def mask(x):
    scores = tf.layers.dense(x, 16) + tf.constant([[0.0] * 8 + [-1e9] * 8])
    return tf.layers.dense(tf.nn.softmax(scores), 1)


def branch(x):
    flag = tf.reduce_sum(x) > 0
    return tf.layers.dense(
        tf.cond(
            flag, lambda: tf.layers.dense(x, 16) * tf.constant(2.0), lambda: tf.layers.dense(x, 16)
        ),
        1,
    )


SHAPES = [constant, keras_layer, zero_state, mask, branch]


def trained(decorate, shape, start=None, steps=5):
    """Losses of some steps by a plain session, the optimizer outside the function, and the
    variables before.
    """
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x, y = vectors()

        @decorate
        def build(x, y):
            return tf.losses.mean_squared_error(y, shape(x))

        loss = build(x, y)
        train = tf.train.AdamOptimizer(0.01).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            load(session, start or {})
            before = state(session)
            return (
                [session.run([loss, train], {x: VECTORS, y: TARGETS})[0] for _ in range(steps)],
                before,
                half_matmuls(),
            )


def half_matmuls():
    return [
        op.name
        for op in tf.get_default_graph().get_operations()
        if op.type == "MatMul" and op.inputs[0].dtype == tf.float16
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_trains_alike(shape):
    expected, start, none = trained(lambda function: function, shape)
    losses, _, half = trained(graphmp.mixed_precision, shape, start)
    assert not none
    assert half
    np.testing.assert_allclose(losses, expected, rtol=2e-2)


def test_what_is_returned_can_be_fetched_and_fed(graph):
    @graphmp.mixed_precision
    def build(x, y):
        h = tf.layers.dense(x * tf.constant(2.0), 4)
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(h, 1))
        return {
            "input": x,
            "hidden": h,
            "loss": loss,
            "train": tf.train.AdamOptimizer(0.01).minimize(loss),
        }

    x, y = vectors()
    made = build(x, y)
    assert made["input"] is x
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(made, {x: VECTORS, y: TARGETS})
        assert found["hidden"].dtype == np.float32
        assert np.isfinite(found["loss"])
    assert half_matmuls()


def test_calls_that_share_variables(graph):
    @graphmp.mixed_precision
    def tower(x, y):
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            return tf.losses.mean_squared_error(
                y, tf.layers.dense(tf.layers.dense(x * tf.constant(2.0), 8, name="a"), 1, name="b")
            )

    x, y = vectors()
    losses = [tower(x, y), tower(2 * x, y)]
    train = tf.train.AdamOptimizer(0.01).minimize(tf.add_n(losses))
    assert len(tf.trainable_variables()) == 4
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = [
            session.run([tf.add_n(losses), train], {x: VECTORS, y: TARGETS})[0] for _ in range(5)
        ]
    assert values[-1] < values[0]


@pytest.mark.parametrize("options", [{"engine": "recipe"}, {"engine_strict": True}])
def test_not_where_it_may_not(graph, options):
    x = vectors()[0]
    with pytest.raises(graphmp.GraphmpError, match="GMP012"):
        graphmp.mixed_precision(lambda x: constant(x), **options)(x)


@pytest.mark.unit
def test_the_recipe_where_it_fits(graph):
    x, y = vectors()
    loss = graphmp.mixed_precision(
        lambda x, y: tf.losses.mean_squared_error(y, tf.layers.dense(x, 1))
    )(x, y)
    assert loss.dtype == tf.float32
    assert half_matmuls()  # at once: the recipe builds them


@pytest.mark.unit
def test_a_function_that_does_not_fit_after_one_that_does(graph):
    x = vectors()[0]
    graphmp.mixed_precision(lambda x: tf.layers.dense(x, 1))(x)
    with pytest.raises(graphmp.GraphmpError, match="GMP012"):
        graphmp.mixed_precision(constant)(x)


@pytest.mark.unit
def test_the_reason_is_said(graph):
    with pytest.warns(
        RuntimeWarning,
        match="constant: the recipe does not fit, the graph is converted in its session: GMP012",
    ):
        graphmp.mixed_precision(constant)(vectors()[0])
