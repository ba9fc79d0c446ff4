"""Layers are known by their weights, also where these are computed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import built, decide

RANDOM = np.random.RandomState(0)


def weights(name="w", rows=8, columns=4, trainable=True):
    start = RANDOM.normal(size=(rows, columns)).astype(np.float32) / 4
    return tf.get_variable(name, initializer=start, trainable=trainable)


def gain():
    return tf.get_variable("gain", initializer=np.ones(4, np.float32))


def spectral_norm(w):
    """Weights over a power iteration's estimate, whose vector is kept in a variable."""
    left = weights("left", 1, 8, trainable=False)
    right = tf.nn.l2_normalize(tf.matmul(left, w))
    return w / tf.reduce_sum(tf.matmul(tf.matmul(left, w), right, transpose_b=True))


def inner_step(x, w):
    """The weights after a step of gradient descent on another loss."""
    return w - 0.1 * tf.gradients(tf.nn.l2_loss(tf.matmul(x, w)), w)[0]


WEIGHTS = {
    "normed": lambda x, w: w * gain() * tf.rsqrt(tf.reduce_sum(tf.square(w), 0)),
    "normed by hand": lambda x, w: gain() * w / tf.norm(w, axis=0),
    "spectral norm": lambda x, w: spectral_norm(w),
    "standardised": lambda x, w: (w - tf.reduce_mean(w, 0)) / tf.math.reduce_std(w, 0),
    "masked": lambda x, w: w * weights("mask", trainable=False),
    "masked by data": lambda x, w: tf.reshape(w * tf.to_float(x[:, :4] > 0), [8, 4]),
    "with a delta": lambda x, w: w + tf.matmul(x, weights("delta")),
    "noisy": lambda x, w: w + tf.nn.softplus(weights("v")) * tf.random_normal([8, 4]),
    "of signs": lambda x, w: tf.clip_by_value(w, -1.0, 1.0) + tf.stop_gradient(tf.sign(w) - w),
    "of an inner step": inner_step,
}
OTHERS = {
    "frozen": lambda x, w: weights("mask", trainable=False) * 2.0,
    "a gain of data": lambda x, w: x[:, :4] * gain(),
    "over data": lambda x, w: w / tf.reduce_sum(x),
    "of probabilities": lambda x, w: tf.nn.softmax(w),
    "of a network": lambda x, w: tf.matmul(x, w),
}


def of_a_sine(value):
    """A graph in which a sine reads a matmul by what is made of data and weights."""

    def build():
        x = tf.placeholder(tf.float32, [8, 8], "x")
        product = tf.matmul(tf.placeholder(tf.float32, [6, 8]), value(x, weights()), name="product")
        tf.matmul(tf.sin(product), weights("read", 4, 4), name="y")

    return built(build)


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_layer_stays_half(name):
    assert {"product", "y"} <= decide(of_a_sine(WEIGHTS[name])).half


@pytest.mark.parametrize("name", OTHERS)
def test_another_product_is_float32(name):
    decided = decide(of_a_sine(OTHERS[name]))
    assert "product" not in decided.half and "y" in decided.half
    assert decided.reasons["product"].startswith("magnified: ")


def test_places_over_length_scales_are_no_weights():
    """The matrix of a kernel that is factored."""

    def build():
        x = tf.placeholder(tf.float32, [8, 4], "x")
        product = tf.matmul(x, weights() * gain(), transpose_b=True, name="product")
        tf.cholesky(tf.exp(product), name="y")

    assert "product" not in decide(built(build)).half


@pytest.mark.parametrize("normed", [True, False])
def test_a_network_that_a_logarithm_reads_stays_half(normed):
    def build():
        h = tf.placeholder(tf.float32, [6, 4], "x")
        for layer in range(3):
            with tf.variable_scope("layer_%d" % layer):
                w = weights(rows=4)
                h = tf.nn.relu(tf.matmul(h, WEIGHTS["normed"](h, w) if normed else w))
        tf.reduce_mean(tf.log(tf.nn.softplus(h)))

    decided = decide(built(build))
    assert {"layer_0/MatMul", "layer_1/MatMul", "layer_2/MatMul"} <= decided.half
    assert not [text for text in decided.reasons.values() if text.startswith("magnified")]
