"""Tiny gradients train with a loss scale and vanish without."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.painting import built
from tests.support.scaled import session
from tests.support.training import state


def tiny_gradients():
    """A regression whose gradients are below float16's smallest number.

    The loss is tiny, the learning rate huge.
    """
    x, y = tf.placeholder(tf.float32, (64, 12), "x"), tf.placeholder(tf.float32, (64, 1), "y")
    hidden = tf.layers.dense(
        x,
        16,
        activation=tf.nn.tanh,
        kernel_initializer=tf.initializers.random_normal(stddev=0.3, seed=1),
    )
    output = tf.layers.dense(
        hidden, 1, kernel_initializer=tf.initializers.random_normal(stddev=0.3, seed=2)
    )
    error = tf.reduce_mean(tf.square(output - y), name="error")
    tf.train.GradientDescentOptimizer(2e7).minimize(
        tf.multiply(error, 5e-9, name="loss"), name="train"
    )
    tf.global_variables_initializer()


def test_five_hundred_steps_of_gradients_that_float16_cannot_hold():
    rng = np.random.RandomState(0)
    batches = [rng.randn(64, 12).astype(np.float32) for _ in range(20)]
    true = rng.randn(12, 1).astype(np.float32) * 0.3
    targets = [np.tanh(x @ true) + 0.3 * rng.randn(64, 1).astype(np.float32) for x in batches]

    def losses(meta_graph, start=None):
        with session(meta_graph, start) as sess:
            first = state(sess)
            feeds = [{"x:0": x, "y:0": y} for x, y in zip(batches, targets)]
            return first, [
                sess.run(["error:0", "train"], feeds[step % 20])[0] for step in range(500)
            ]

    original = built(tiny_gradients)
    start, expected = losses(original)
    assert np.mean(expected[-20:]) < 0.5 * np.mean(expected[:5])
    _, scaled = losses(graphmp.convert(original, loss_scale="dynamic").meta_graph, start)
    _, plain = losses(graphmp.convert(original, loss_scale="none").meta_graph, start)
    end = slice(-20, None)
    np.testing.assert_allclose(np.mean(scaled[end]), np.mean(expected[end]), rtol=0.01)
    assert np.mean(plain[end]) > 1.5 * np.mean(expected[end])
