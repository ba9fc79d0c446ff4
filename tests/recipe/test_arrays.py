"""Arrays of tensors that a decorated function makes behind its half-precision part."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.models import VECTORS

VALUES = {"half": lambda h: h, "denied": tf.nn.softmax, "large": lambda h: 1e4 * tf.square(h)}


def scattered(array, values):
    return array.unstack(values).stack()


def written_in_a_loop(array, values):
    def body(i, array):
        return i + 1, array.write(i, values[i])

    return tf.while_loop(lambda i, _: i < 8, body, (0, array))[1].concat()


def losses(value, way, **options):
    """Losses of three steps whose array is of the dtype that the hidden layer has."""

    def build(x):
        hidden = tf.layers.dense(x, 8, kernel_initializer=tf.ones_initializer(), use_bias=False)
        array = tf.TensorArray(hidden.dtype, 8, element_shape=(8,))
        loss = 1e-4 * tf.reduce_mean(way(array, VALUES[value](hidden))) + tf.reduce_mean(
            tf.square(tf.layers.dense(hidden, 4))
        )
        return loss, tf.train.GradientDescentOptimizer(1e-5).minimize(loss)

    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(3)
        x = tf.placeholder(tf.float32, (8, 12))
        loss, train = (
            graphmp.mixed_precision(engine="recipe", loss_scale_initial=64.0, **options)(build)(x)
            if options
            else build(x)
        )
        sess.run(tf.global_variables_initializer())
        return [sess.run([loss, train], {x: VECTORS})[0] for _ in range(3)]


@pytest.mark.parametrize("way", [scattered, written_in_a_loop])
@pytest.mark.parametrize("value", sorted(VALUES))
def test_an_array_of_the_hidden_layers_dtype_trains(value, way):
    np.testing.assert_allclose(
        losses(value, way, compute_dtype="float16"), losses(value, way), rtol=5e-3
    )
