"""Products of a tensor with its own transpose are float32, for they add up squares; scores aren't."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import built, decide, verified

ADDS_SQUARES = {
    "Gram": lambda f: tf.matmul(f, f, transpose_a=True),
    "transposed": lambda f: tf.matmul(tf.transpose(f, [0, 2, 1]), tf.identity(f)),
    "distances": lambda f: tf.exp(-tf.matmul(f, f, transpose_b=True) / 1e6),
    "einsum": lambda f: tf.einsum("bic,bid->bcd", f, f),
}
OTHERS = {
    "power": lambda f: tf.matmul(f, f),
    "turned twice": lambda f: tf.matmul(tf.transpose(f, [0, 2, 1]), f, transpose_a=True),
    "of two tensors": lambda f: tf.matmul(f, tf.tanh(f), transpose_b=True),
}


SCORES = {
    "attention": lambda s: tf.nn.softmax(s / 8.0 + tf.constant(-1e4 * np.eye(256, dtype="f"))),
    "interactions": lambda s: tf.concat([s, tf.nn.relu(s)], -1),
    "also shapes": lambda s: tf.reshape(tf.tanh(s), tf.shape(s)),
}
NO_SCORES = {
    "neighbours": lambda s: tf.one_hot(tf.nn.top_k(s, 1)[1][..., 0], 256),
    "a mean of squares too": lambda s: tf.nn.softmax(s) + tf.reduce_mean(s),
    "a kernel": lambda s: tf.exp(s),
}


def network(product, rows=256):
    x = tf.placeholder(tf.float32, [2, 16, 16, 4], "x")
    kernel = np.full((3, 3, 4, 4), 3.0, np.float32)
    f = tf.nn.relu(tf.nn.conv2d(x, kernel, [1] * 4, "SAME", name="layer"))
    y = product(tf.reshape(f, [2, rows, -1])) / 1024.0
    after = tf.matmul(y, np.ones((2, int(y.shape[2]), 4), np.float32), name="after")
    tf.identity(after, "y")


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


@pytest.mark.parametrize("read", SCORES.values(), ids=list(SCORES))
def test_scores_over_features_are_half(read):
    decided = decide(built(lambda: network(lambda f: read(tf.matmul(f, f, transpose_b=True)))))
    assert {"layer", "MatMul", "after"} <= decided.half


@pytest.mark.parametrize("read", NO_SCORES.values(), ids=list(NO_SCORES))
def test_squares_that_something_else_reads_are_no_scores(read):
    decided = decide(built(lambda: network(lambda f: read(tf.matmul(f, f, transpose_b=True)))))
    assert {"layer", "after"} <= decided.half and "MatMul" not in decided.half


def test_scores_over_positions_are_float32():
    """A softmax over channels, of a sum over 256 positions."""
    graph = built(lambda: network(lambda f: tf.nn.softmax(tf.matmul(f, f, transpose_a=True))))
    assert "MatMul" not in decide(graph).half
