"""Sums of many numbers in bfloat16: no kernel of a CPU may add them up in bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp

EXAMPLES = np.random.RandomState(0).uniform(0.5, 1.5, [2, 16, 16, 4]).astype(np.float32)


def normalised(x):
    """Statistics of a layer's results over all but the channels, between layers with biases."""
    hidden = tf.layers.conv2d(x, 8, 1, name="first", bias_initializer=tf.ones_initializer())
    mean, variance = tf.nn.moments(hidden, [0, 1, 2])
    hidden = tf.nn.batch_normalization(hidden, mean, variance, None, None, 1e-3)
    hidden = tf.layers.dense(tf.nn.relu(hidden), 8, name="middle", activation=tf.nn.relu)
    return tf.layers.dense(hidden, 2, name="last", kernel_initializer=tf.ones_initializer())


def trained(x):
    """The training op, the loss, and the gradient of the middle bias."""
    loss = tf.reduce_mean(tf.reduce_sum(normalised(x), -1))
    bias = next(v for v in tf.trainable_variables() if v.op.name == "middle/bias")
    optimizer = tf.train.GradientDescentOptimizer(0.0)
    ((gradient, _),) = optimizer.compute_gradients(loss, [bias])
    return {"train": optimizer.apply_gradients([(gradient, bias)]), "loss": loss, "bias": gradient}


def step(session, shape):
    """Loss and gradient of a step, from the same weights each time."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, shape)
        found = trained(x)
        with session() as sess:
            sess.run(tf.global_variables_initializer())
            got = sess.run(found, {x: EXAMPLES})
            return got["loss"], got["bias"]


@pytest.mark.parametrize("shape", [EXAMPLES.shape, [None, 16, 16, 4]], ids=["known", "open"])
def test_a_session_adds_up_in_float32(shape):
    loss, bias = step(tf.Session, shape)
    half_loss, half_bias = step(
        lambda: graphmp.Session(compute_dtype="bfloat16", loss_scale="none"), shape
    )
    assert half_loss == pytest.approx(loss, rel=0.02)
    np.testing.assert_allclose(half_bias, bias, rtol=0.02, atol=0.01 * np.abs(bias).max())


def test_the_recipe_adds_up_in_float32():
    """Built in half precision, with the same weights: of ones."""

    def network(x):
        mean, _ = tf.nn.moments(x, [0, 1, 2])
        hidden = tf.reshape(x - mean + 1.0, [-1, 4])
        ones = tf.ones_initializer()
        return tf.layers.dense(hidden, 8, kernel_initializer=ones, bias_initializer=ones)

    def build(x):
        loss = tf.reduce_sum(tf.cast(network(x), tf.float32))
        gradients = tf.gradients(loss, tf.trainable_variables("dense/bias"))
        return loss, gradients[0]

    found = []
    for made in (build, graphmp.mixed_precision(compute_dtype="bfloat16", engine="recipe")(build)):
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.placeholder(tf.float32, EXAMPLES.shape)
            fetched = made(x)
            sess.run(tf.global_variables_initializer())
            found.append(sess.run(fetched, {x: EXAMPLES}))
    (loss, bias), (half_loss, half_bias) = found
    assert half_loss == pytest.approx(loss, rel=0.02)
    np.testing.assert_allclose(half_bias, bias, rtol=0.02)
