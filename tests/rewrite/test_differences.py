"""Small differences of large terms keep float32's digits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import (
    assert_close,
    between,
    built,
    converted,
    decide,
    half_nodes,
    placeholders,
)
from tests.support.structure import of_op


def mean(x):
    return tf.reduce_mean(x, 0)


def by_products(h):
    x = h + 10.0
    return (x - mean(x)) / tf.sqrt(mean(x * x) - mean(x) * mean(x) + 1e-3)


def by_squares(h):
    x = h + 10.0
    return (x - mean(x)) * tf.rsqrt(mean(tf.square(x)) - tf.square(mean(x)) + 1e-3)


def by_sums(h):
    x = h + 10.0
    total, squares = tf.reduce_sum(x, 0), tf.reduce_sum(x * x, 0)
    return (x - total / 32.0) * tf.rsqrt((squares - total * total / 32.0) / 32.0 + 1e-3)


def by_a_negative(h):
    x = h + 10.0
    spread = tf.nn.relu(tf.reduce_mean(x**2, 1) + -1.0 * tf.reduce_mean(x, 1) ** 2)
    return x / tf.sqrt(spread + 1e-2)[:, None]


def of_windows(h):
    x = tf.reshape(h, [32, 4, 4, 1]) + 8.0

    def pooled(value):
        return tf.nn.avg_pool(value, [1, 2, 2, 1], [1] * 4, "SAME")

    return (x - pooled(x)) / tf.sqrt(tf.maximum(pooled(x * x) - pooled(x) ** 2, 1e-3))


def of_a_filter(h):
    x = tf.reshape(h, [32, 4, 4, 1]) + 8.0

    def filtered(value):
        kernel = np.full((2, 2, 1, 1), 0.25, np.float32)
        return tf.nn.conv2d(value, kernel, [1] * 4, "VALID", name="filter")

    spread = tf.abs(filtered(x * x) - tf.square(tf.minimum(filtered(x), 1e3)))
    return x[:, :3, :3] / tf.sqrt(spread + 0.01)


def similarity(h):
    """SSIM: a window that is computed of constants, and tiled by a shape; no root."""
    a, b = tf.reshape(h, [32, 4, 4, 1]) + 8.0, tf.reshape(h * 0.5, [32, 4, 4, 1]) + 7.0
    gauss = tf.exp(-tf.square(tf.constant([[-1.0, 0.0, 1.0]])) / 4.5)
    window = tf.matmul(gauss, gauss, transpose_a=True)[:, :, None, None]
    window = tf.tile(window / tf.reduce_sum(window), [1, 1, tf.shape(a)[-1], 1])

    def filtered(value):
        return tf.nn.depthwise_conv2d(value, window, [1] * 4, "VALID")

    spread = filtered(a * a + b * b) - filtered(a) ** 2 - filtered(b) ** 2
    shared = filtered(a * b) - filtered(a) * filtered(b)
    return a[:, 1:3, 1:3] * (2.0 * shared + 9e-4) / (spread + 9e-4)


def by_a_constant_matrix(h):
    x = h + 10.0
    means = np.full((16, 16), 1 / 16, np.float32)

    def averaged(value):
        return tf.matmul(value, means)

    return x / tf.sqrt(tf.abs(averaged(x * x) - averaged(x) ** 2) + 1e-2)


def correlation(h):
    a, b = h[:, :8] + 5.0, h[:, 8:] + 5.0
    spreads = (mean(a * a) - mean(a) ** 2) * (mean(b * b) - mean(b) ** 2)
    return h[:, :8] * (mean(a * b) - mean(a) * mean(b)) / tf.sqrt(spreads + 1e-6)


def with_bytes(h):
    """A covariance with data that comes as integers."""
    a, b = h + 5.0, tf.cast(tf.placeholder(tf.uint8, [32, 16]), tf.float32)
    return a / tf.sqrt(tf.abs(mean(a * b) - mean(a) * mean(b)) + 1e-3)


def distances(h):
    a = h + 4.0
    norms = tf.reduce_sum(a * a, 1, keepdims=True)
    products = tf.matmul(a, a, transpose_b=True, name="products")
    return tf.sqrt(tf.maximum(norms - 2.0 * products + tf.transpose(norms), 0.1))


PRODUCTS = [
    by_products, by_squares, by_sums, by_a_negative, of_windows, of_a_filter, similarity,
    by_a_constant_matrix, correlation, distances
]  # fmt: skip


def divided(h):
    p = tf.tanh(2.0 * tf.abs(h))
    return p + 0.01 / (1.01 - p)


def logarithm(h):
    a = tf.tanh(3.0 * h)
    return a + 0.1 * tf.log(1.0 - a**2 + 1e-6)


def sine(h):
    c = tf.nn.l2_normalize(h[:, :2], 1)
    return c + tf.sqrt(1.0 - tf.square(c) + 1e-6)


@pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("idiom", [*PRODUCTS, divided, logarithm, sine])
def test_values_are_float32s(idiom, compute_dtype):
    before = between(idiom)
    after = converted(before, compute_dtype=compute_dtype)
    assert {"h", "y"} <= half_nodes(after)
    # what is left is the rounding of the matmul's result, beside the constant that was added
    assert_close(before, after, ["value:0"], placeholders(before), 0.05)


@pytest.mark.unit
@pytest.mark.parametrize("idiom", [*PRODUCTS, with_bytes])
def test_both_terms_are_float32_from_what_they_share(idiom):
    painted = decide(between(idiom), compute_dtype="bfloat16")
    words = "a small difference of large terms"
    kept = {name for name, reason in painted.reasons.items() if words in reason}
    assert len({name.split(".")[0] for name in kept}) >= 4 and not kept & painted.half
    assert {"h", "y"} <= painted.half


@pytest.mark.unit
def test_a_matmul_of_a_tensor_with_itself_and_a_filter_are_such_products():
    assert "products" not in decide(between(distances)).half
    painted = decide(between(of_a_filter))
    assert "filter" not in painted.half and "filter_1" not in painted.half


@pytest.mark.unit
def test_tensorflows_ssim_computes_its_filter_and_its_gradients_filter_too():
    def build():
        x = tf.placeholder(tf.float32, [2, 16, 16, 3])
        kernel = tf.get_variable("kernel", [3, 3, 3, 3])
        y = tf.sigmoid(tf.nn.conv2d(x, kernel, [1] * 4, "SAME", name="h"))
        tf.gradients(tf.reduce_mean(tf.image.ssim(y, x, 1.0)), kernel)

    before = built(build)
    filters = of_op(before, "DepthwiseConv2dNative")
    filters += of_op(before, "DepthwiseConv2dNativeBackpropInput")
    painted = decide(before, compute_dtype="bfloat16")
    assert len(filters) >= 6 and painted.half.isdisjoint(node.name for node in filters)
    assert "h" in painted.half


def by_moments(h):
    m = tf.reduce_mean(h, 1, keepdims=True)
    return tf.nn.batch_normalization(h, m, tf.reduce_mean((h - m) ** 2, 1, True), None, None, 0.1)


def of_pairs(h):
    v = tf.reshape(h, [32, 4, 4])
    return tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1)


def dropout(h):
    return tf.div(h, 1.0 - tf.placeholder_with_default(0.1, []))


@pytest.mark.unit
@pytest.mark.parametrize("idiom", [by_moments, of_pairs, dropout])
def test_other_differences_are_left_to_the_lists(idiom):
    reasons = decide(between(idiom), compute_dtype="bfloat16").reasons
    assert not [reason for reason in reasons.values() if reason.startswith("range guard")]
