"""Terms that half precision rounds away, and sums that only look like those."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import built
from tests.support.training_graphs import sgd
from tests.support.warned import said

pytestmark = pytest.mark.unit


def logits_of(x):
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("a", (12, 12))))
        return tf.matmul(hidden, tf.get_variable("b", (12, 3)))


def loss_of(logits):
    return tf.reduce_mean(tf.nn.softplus(logits))


def moved(change):
    """A loss of what a network makes of moved inputs."""

    def build():
        x, d = (tf.placeholder(tf.float32, (16, 12), name) for name in "xd")
        with tf.name_scope("moved"):
            sgd().minimize(loss_of(logits_of(change(x, d))))

    return build


def decayed():
    """The sizes of weights beside the loss, and in their gradients."""
    loss = loss_of(logits_of(tf.placeholder(tf.float32, (16, 12), "x")))
    loss += 1e-6 * tf.add_n([tf.nn.l2_loss(w) for w in tf.trainable_variables()])
    sgd().minimize(loss)


def squared(x):
    return tf.matmul(x, tf.matmul(x, x, transpose_a=True))


FAINT = {
    "product": moved(lambda x, d: x + 1e-6 * d),
    "quotient": moved(lambda x, d: d / 1e6 + x),
    "difference": moved(lambda x, d: x - 1e-6 * d),
    "passed on": moved(lambda x, d: tf.reshape(x + tf.stop_gradient(1e-6 * d), (16, 12))),
    "hidden": moved(lambda x, d: tf.nn.relu(squared(x) + 1e-6 * squared(d))),
}
OTHERS = {
    "large": moved(lambda x, d: x + 0.1 * d),
    "all tiny": moved(lambda x, d: 1e-6 * x + 1e-6 * d),
    "constant": moved(lambda x, d: x * d + 1e-6),
    "unread": moved(lambda x, d: x * tf.reduce_mean(tf.exp(x + 1e-6 * d))),
    "decay": decayed,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", FAINT)
def test_a_term_that_half_precision_rounds_away_is_said(name, dtype):
    """With a cure that works."""
    graph = built(FAINT[name])
    (row,) = said(graph, "GMP129", compute_dtype=dtype)
    assert "1e-06 times" in row["message"] and row["node"].startswith("moved/")
    assert said(graph, "GMP129", compute_dtype=dtype, keep_float32=["^moved/"]) == []


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums(name):
    assert said(built(OTHERS[name]), "GMP129") == []


@pytest.mark.parametrize("name", ["product", "hidden"])
def test_a_factor_that_float16_does_not_hold(name):
    changes = {
        "product": lambda x, d: x + 1e-9 * d,
        "hidden": lambda x, d: squared(x) + 1e-9 * squared(d),
    }
    (row,) = said(built(moved(changes[name])), "GMP129")
    assert "1e-09 times" in row["message"]


def test_what_is_tiny_in_bfloat16_alone():
    graph = built(moved(lambda x, d: x + 1e-3 * d))
    assert said(graph, "GMP129") == []
    assert len(said(graph, "GMP129", compute_dtype="bfloat16")) == 1
