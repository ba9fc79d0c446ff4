"""Clips that the model has itself."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp


@pytest.mark.unit
def test_a_factor_that_no_norm_reaches_is_no_clip():
    with tf.Graph().as_default() as graph:
        product = tf.matmul(tf.placeholder(tf.float32, [4, 8]), tf.get_variable("w", [8, 8]))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        ((gradient, variable),) = optimizer.compute_gradients(tf.reduce_mean(product))
        factor = tf.minimum(2.0, 1 / (1 + tf.square(tf.global_norm([gradient]))))
        optimizer.apply_gradients([(gradient * factor, variable)])
        (loss,) = graphmp.convert(graph).report["losses"]
    assert all(clip["norm"] is None for clip in loss["user_clips"])
