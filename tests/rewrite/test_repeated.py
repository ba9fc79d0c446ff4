"""Products by constants near 1, and sums over a loop, keep their digits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import (
    assert_close,
    between,
    converted,
    decide,
    half_nodes,
    placeholders,
)


def looped(step, times=300):
    def idiom(h):
        start = [tf.constant(0), h]
        return tf.while_loop(lambda i, a: i < times, lambda i, a: (i + 1, step(a, h)), start)[1]

    idiom.__name__ = step.__name__
    return idiom


def decays(a, h):
    return 0.999 * a + 0.001 * tf.abs(h)


def grows(a, h):
    return a * 1.003


def is_divided(a, h):
    return a / 1.001


def moves(a, h):
    return a + (tf.abs(h) - a) * 0.003


def adds_up(a, h):
    return a + 0.01 * tf.abs(h)


def unrolled(h):
    a = h
    for _ in range(40):
        a = 0.998 * a + 0.002 * tf.abs(h)
    return a


def discounted(h):
    rewards = tf.tile(tf.transpose(h), [10, 1])
    return tf.transpose(tf.scan(lambda total, reward: reward + 0.99 * total, rewards)[-16:])


def clipped(h):
    p = tf.minimum(tf.tanh(4.0 * tf.abs(h)), 1 - 1e-3)
    return p + 1e-3 / (1.0 - p)


LOOPS = [looped(step) for step in (decays, grows, is_divided, moves, adds_up)]


@pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("idiom", [*LOOPS, unrolled, discounted])
def test_values_are_float32s(idiom, compute_dtype):
    before = between(idiom)
    after = converted(before, compute_dtype=compute_dtype)
    assert {"h", "y"} <= half_nodes(after)
    rtol = 1e-2 if compute_dtype == "bfloat16" else 2e-3
    assert_close(before, after, ["value:0"], placeholders(before), rtol)


@pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
def test_a_clip_below_1_stays_below_1(compute_dtype):
    before = between(clipped)
    after = converted(before, compute_dtype=compute_dtype)
    assert_close(before, after, ["value:0"], placeholders(before), 0.05)


@pytest.mark.parametrize("idiom", LOOPS)
def test_gradients_are_float32s(idiom):
    def with_gradient(h):
        a = tf.matmul(idiom(h), np.eye(16, dtype=np.float32))
        return tf.gradients(tf.reduce_sum(tf.square(a)), h)[0]

    before = between(with_gradient)
    after = converted(before, compute_dtype="bfloat16")
    assert_close(before, after, ["value:0"], placeholders(before), 2e-2)


@pytest.mark.unit
@pytest.mark.parametrize(
    "number, float16, bfloat16",
    [(0.9, True, True), (1 / 0.95, True, True), (0.99, True, False), (1.0, True, True),
     (0.99999, False, False), (1 + 1e-6, False, False), (1e-3, True, True)],
)  # fmt: skip
def test_one_product_is_half_if_the_constant_keeps_its_distance_from_1(number, float16, bfloat16):
    graph = between(lambda h: tf.multiply(h, number, name="product"))
    assert ("product" in decide(graph).half) == float16
    assert ("product" in decide(graph, compute_dtype="bfloat16").half) == bfloat16


@pytest.mark.unit
def test_the_reasons_are_told():
    graph = between(lambda h: tf.multiply(h, 0.999, name="product"))
    words = "range guard: product/y holds 0.999, whose distance from 1 bfloat16 changes by 100%"
    assert decide(graph, compute_dtype="bfloat16").reasons["product"] == words
    reasons = decide(between(looped(adds_up))).reasons
    assert reasons["while/add_1"] == "range guard: adds up over the iterations of a loop"


@pytest.mark.unit
def test_a_product_that_a_matmul_follows_in_its_loop_is_another_each_time():
    step = looped(lambda a, h: tf.matmul(a * (1 / 0.95), np.eye(16, dtype=np.float32)))
    assert "while/mul" in decide(between(step), compute_dtype="bfloat16").half


@pytest.mark.unit
def test_what_is_compared_with_a_constant_near_1_is_float32():
    def idiom(h):
        p = tf.sigmoid(h)
        return tf.where(tf.greater(p, 0.997), h, -h) + p

    painted = decide(between(idiom))
    assert "Sigmoid" not in painted.half and {"h", "y"} <= painted.half
