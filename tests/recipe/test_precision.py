"""What the recipe would round and the rewrite keeps in float32 is refused, with the line."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError

TABLE = [float(i % 7) for i in range(1024)]


def interpolated(h):
    x = 500.0 + 500.0 * tf.tanh(h)
    low = tf.floor(x)
    table = tf.cast(TABLE, h.dtype)
    at, above = tf.cast(low, tf.int32), tf.cast(low + 1.0, tf.int32)
    return (low + 1.0 - x) * tf.gather(table, at) + (x - low) * tf.gather(table, above)


def decayed(h):
    for _ in range(3):
        h = h * 0.999  # a decay
    return h


def normalised(h):
    m = tf.reduce_mean(h, 0)
    variance = tf.reduce_mean(h * h, 0) - m * m  # by squares
    return (h - m) * tf.rsqrt(variance + tf.cast(1e-3, h.dtype))


def plain(h):
    return tf.nn.relu(h) * 0.5


def build(between, **options):
    """A network built by a decorated function, and whether its matmuls are half precision."""

    def function(x, y):
        h = tf.layers.dense(x, 16, name="first")
        logits = tf.layers.dense(between(h), 4, name="last")
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    decorated = graphmp.mixed_precision(**options)(function)
    with tf.Graph().as_default() as graph:
        decorated(tf.placeholder(tf.float32, [8, 4]), tf.placeholder(tf.int32, [8]))
        return graph.get_operation_by_name("last/MatMul").outputs[0].dtype


@pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "between, words",
    [
        (interpolated, r"first/MatMul would be half precision, but leads to the positions that "),
        (decayed, r"`h = h \* 0.999\s+# a decay`: mul would be half precision, but mul/y holds "),
        (
            normalised,
            r"would be half precision, but leads to sub, a small difference of large terms",
        ),
    ],
)
def test_refused_with_the_reason(between, words, compute_dtype):
    with pytest.raises(GraphmpError, match=r"GMP012: .*test_precision.py:\d+: .*" + words) as found:
        build(between, engine="recipe", compute_dtype=compute_dtype)
    assert "let `graphmp convert FILE --engine=rewrite` change the float32" in str(found.value)


def test_what_loses_nothing_is_built():
    assert build(plain, engine="recipe", compute_dtype="bfloat16") == tf.bfloat16


@pytest.mark.parametrize("between", [interpolated, decayed, normalised])
def test_auto_builds_float32_for_the_rewrite(between):
    assert build(between, compute_dtype="bfloat16") == tf.float32


def test_divisions_by_constants_are_float32_on_1_15():
    """Its optimizer of graphs makes a Reciprocal of them, for which there is no kernel."""
    found = []

    def divided(h):
        found[:] = [h / tf.sqrt(tf.cast(3.0, h.dtype)), h / tf.reduce_max(h)]
        return sum(found)

    assert build(divided, engine="recipe", compute_dtype="bfloat16") == tf.bfloat16
    old = tf.__version__.startswith("1.")
    division, other = (
        tensor.graph.get_operation_by_name(name)
        for tensor, name in zip(found, ("truediv", "truediv_1"))
    )
    assert division.inputs[0].dtype == (tf.float32 if old else tf.bfloat16)
    assert other.inputs[0].dtype == tf.bfloat16


def test_a_loss_by_a_dot_product_is_left_to_the_rewrite():
    def weighted(x):
        scores = tf.layers.dense(x, 1)[:, 0]
        loss = tf.tensordot(scores, tf.stop_gradient(tf.nn.softmax(scores)), 1)
        return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    words = "MatMul would be half precision, but gives one number, which leads to a loss or an"
    with tf.Graph().as_default(), pytest.raises(GraphmpError, match="GMP012.*" + words):
        graphmp.mixed_precision(engine="recipe")(weighted)(tf.placeholder(tf.float32, [8, 4]))
