"""A comparison of a tensor with what is selected from it sees both sides rounded, or neither."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import built, half_nodes, verified
from tests.support.tiny import FLOAT16

KERNEL = np.random.RandomState(0).normal(size=(16, 16)).astype(np.float32) / 4


def exponentials(bound=tf.identity):
    """A float32 tensor that a matmul reads too, so that there is a half-precision copy of it."""
    x = tf.placeholder(tf.float32, [64, 16], "x")
    e = bound(tf.exp(tf.matmul(x, KERNEL)))
    return e, tf.matmul(e, KERNEL)


def largest(e):
    return tf.equal(e, tf.reduce_max(e, 1, keepdims=True))


def not_smallest(e):
    return tf.not_equal(tf.tile(tf.reduce_min(e, 1, keepdims=True), [1, 16]), e)


def as_large_as_around(e):
    images = tf.reshape(e, [64, 4, 4, 1])
    return tf.greater_equal(images, tf.nn.max_pool(images, [1, 3, 3, 1], [1] * 4, "SAME"))


def of_two_halves(e):
    return tf.less_equal(tf.maximum(e[:, :8], e[:, 8:]), e[:, :8])


@pytest.mark.parametrize("select", [largest, not_smallest, as_large_as_around, of_two_halves])
def test_a_tensor_is_compared_with_what_is_selected_from_it(select):
    def build():
        e, read = exponentials(tf.nn.softmax)
        mask = tf.reshape(tf.cast(select(e), tf.float32), [64, -1], name="mask")
        hard = tf.stop_gradient(mask - e[:, : mask.shape[1]]) + e[:, : mask.shape[1]]
        tf.concat([read, tf.matmul(hard, KERNEL[: mask.shape[1]])], 1, name="y")

    verified(built(build), ["mask:0", "y:0"])


@pytest.mark.parametrize("reduce", [tf.reduce_max, tf.reduce_min])
def test_the_gradient_of_a_maximum_is_finite(reduce):
    def build():
        e, read = exponentials()
        selected = tf.tile(reduce(e, 1, keepdims=True), [1, 16])
        y = tf.matmul(tf.concat([e, selected], 1), np.concatenate([KERNEL, KERNEL]))
        tf.add_n(tf.gradients(tf.reduce_sum((y + read) ** 2), e), name="found")

    verified(built(build), ["found:0"])


def test_half_precision_of_the_tensor_itself_is_on_both_sides():
    def build():
        x = tf.placeholder(tf.float32, [64, 16], "x")
        h = tf.nn.relu(tf.matmul(x, KERNEL), name="h")
        mask = tf.where(largest(h), h, tf.zeros_like(h))
        tf.matmul(mask, KERNEL, name="y")

    assert {"h", "Max", "y"} <= half_nodes(verified(built(build)), [FLOAT16])
