"""Products of a tensor with its own transpose are float32: they add up squares."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import built, decide, verified

ADDS_SQUARES = {
    "Gram": lambda f: tf.matmul(f, f, transpose_a=True),
    "transposed": lambda f: tf.matmul(tf.transpose(f, [0, 2, 1]), tf.identity(f)),
    "distances": lambda f: tf.matmul(f, f, transpose_b=True),
    "einsum": lambda f: tf.einsum("bic,bid->bcd", f, f),
}
OTHERS = {
    "power": lambda f: tf.matmul(f, f),
    "turned twice": lambda f: tf.matmul(tf.transpose(f, [0, 2, 1]), f, transpose_a=True),
    "of two tensors": lambda f: tf.matmul(f, tf.tanh(f), transpose_b=True),
}


def network(product, rows=256):
    x = tf.placeholder(tf.float32, [2, 16, 16, 4], "x")
    kernel = np.full((3, 3, 4, 4), 3.0, np.float32)
    f = tf.nn.relu(tf.nn.conv2d(x, kernel, [1] * 4, "SAME", name="layer"))
    y = product(tf.reshape(f, [2, rows, -1])) / 1024.0
    tf.matmul(y, np.ones((2, int(y.shape[2]), 4), np.float32), name="after")
    tf.identity(y, "y")


@pytest.mark.parametrize("product", ADDS_SQUARES.values(), ids=list(ADDS_SQUARES))
def test_a_gram_matrix_is_a_sum_of_squares(product):
    graph = built(lambda: network(product))
    decided = decide(graph)
    assert {"layer", "after"} <= decided.half
    assert any(text.endswith("with itself adds up squares") for text in decided.reasons.values())
    verified(graph, ["y:0"])


@pytest.mark.parametrize("product", OTHERS.values(), ids=list(OTHERS))
def test_other_products_are_half(product):
    decided = decide(built(lambda: network(product, 32)))
    products = {n for n in decided.half if "MatMul" in n}
    assert len(products) >= 1 and not any("squares" in text for text in decided.reasons.values())
