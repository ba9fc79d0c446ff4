"""What becomes indexes, boxes or fractions stays float32, to the matmul that gives it."""

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

RANDOM = np.random.RandomState(0)
TABLE = RANDOM.rand(1024).astype(np.float32)
IMAGE = RANDOM.rand(64, 64, 2).astype(np.float32)


def interpolated(x, floor=tf.floor):
    low = floor(x)
    at, above = tf.cast(low, tf.int32), tf.cast(low + 1.0, tf.int32)
    return (low + 1.0 - x) * tf.gather(TABLE, at) + (x - low) * tf.gather(TABLE, above)


def scaled(h):
    return interpolated((tf.tanh(h) + 1.0) * 500.0)


def flow(h):
    return interpolated(60.0 * tf.range(16.0) + 20.0 + 2.0 * h)


def of_a_transformation(h):
    points = np.stack([*np.meshgrid(np.linspace(0, 9, 8), np.linspace(0, 9, 8)), np.ones((8, 8))])
    theta = tf.reshape(h[:, :6], [32, 2, 3]) + 20.0
    grid = tf.tile(points.reshape(1, 3, 64).astype(np.float32), [32, 1, 1])
    return interpolated(tf.clip_by_value(tf.matmul(theta, grid, name="grid"), 0.0, 1000.0))


def by_integers(h):
    x = tf.sigmoid(h) * 1000.0
    at = tf.cast(x, tf.int32)
    return tf.gather(TABLE, at) * (tf.cast(at, tf.float32) + 1.0 - x)


def rows_and_columns(h):
    at = tf.cast(tf.round(tf.sigmoid(h) * 63.0), tf.int32)
    found = tf.gather_nd(IMAGE, tf.stack([at[:, :8], at[:, 8:]], -1))
    return tf.reshape(found, [32, 16]) + tf.sigmoid(h)


def buckets(h):
    x = tf.nn.softplus(h) * 100.0
    return tf.matmul(tf.one_hot(tf.cast(x, tf.int32), 300)[:, 0], TABLE[:300, None]) + 0.001 * x


def fraction(h):
    x = 43.7 * h
    return x - tf.floor(x)


def remainder(h):
    x = 43.7 * h
    return tf.floormod(x, 1.0) + 0.01 * x


def boxes(h):
    low = 0.5 * tf.sigmoid(h[:, :2])
    box = tf.concat([low, low + 0.3], 1)
    return tf.image.crop_and_resize(IMAGE[None], box, tf.zeros([32], tf.int32), [3, 3])


def glimpses(h):
    at = 0.8 * tf.tanh(h[:, :2])
    images = tf.tile(IMAGE[None], [32, 1, 1, 1])
    return tf.concat([tf.reshape(tf.image.extract_glimpse(images, [4, 4], at), [32, -1]), at], 1)


ALL = [
    scaled, flow, of_a_transformation, by_integers, rows_and_columns, buckets, fraction, remainder,
    boxes, glimpses,
]  # fmt: skip


@pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("idiom", ALL)
def test_positions_are_float32s(idiom, compute_dtype):
    before = between(idiom)
    after = converted(before, compute_dtype=compute_dtype)
    assert "h" not in half_nodes(after) and "y" in half_nodes(after)
    rtol = 1e-2 if compute_dtype == "bfloat16" else 2e-3
    assert_close(before, after, ["value:0"], placeholders(before), rtol)


def classes(h):
    p = tf.sigmoid(h)
    return tf.one_hot(tf.cast(tf.round(p), tf.int32), 2) * p[:, :, None]


def lengths(h):
    number = tf.cast(tf.reduce_sum(tf.sign(tf.abs(h)), 1), tf.int32)
    return tf.gather(TABLE, number)[:, None] * h


def expectation(h):
    return interpolated(tf.reduce_sum(tf.nn.softmax(h) * tf.range(16.0), 1))


def straight_through(h):
    x = 8.0 * h
    return x + tf.stop_gradient(tf.round(x) - x)


def count(h):
    return h * tf.cast(tf.shape(h)[0], tf.float32)


@pytest.mark.unit
@pytest.mark.parametrize("idiom", [classes, lengths, expectation, straight_through, count])
def test_the_matmul_is_half_where_its_rounding_does_no_harm(idiom):
    assert {"h", "y"} <= decide(between(idiom)).half


@pytest.mark.unit
def test_the_reason_names_what_reads_the_positions():
    reasons = decide(between(scaled)).reasons
    words = "range guard: leads to the positions that GatherV2 reads"
    assert [reasons[name] for name in ("h", "Tanh", "mul", "Floor")] == [words] * 4


@pytest.mark.unit
def test_the_user_may_compute_them_in_half_all_the_same():
    assert "h" in decide(between(scaled), force_compute=("^h$",)).half
