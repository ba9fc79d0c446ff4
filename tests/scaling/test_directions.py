"""Directions of gradients that a loss reads, and values that only look like them."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import built
from tests.support.training_graphs import sgd
from tests.support.warned import said

pytestmark = pytest.mark.unit


def loss_of(x):
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("a", (12, 12))))
        return tf.reduce_mean(tf.nn.softplus(tf.matmul(hidden, tf.get_variable("b", (12, 3)))))


def given():
    return tf.placeholder(tf.float32, (16, 12), "x")


def perturbed(change):
    """A loss of inputs that are moved by what is made of their gradient."""

    def build():
        x = given()
        (gradient,) = tf.gradients(loss_of(x), [x])
        sgd().minimize(loss_of(tf.stop_gradient(x + 0.1 * change(gradient))))

    return build


def in_a_loop():
    """Several small steps, each by a sign."""
    x = given()

    def body(turn, moved):
        (gradient,) = tf.gradients(loss_of(moved), [moved])
        return turn + 1, tf.clip_by_value(moved + 0.01 * tf.sign(gradient), x - 0.1, x + 0.1)

    _, moved = tf.while_loop(lambda turn, _: turn < 3, body, [0, x])
    sgd().minimize(loss_of(tf.stop_gradient(moved)))


def by_norm(gradient):
    return gradient / tf.norm(gradient, axis=1, keepdims=True)


def by_largest(gradient):
    return gradient / (1e-12 + tf.reduce_max(tf.abs(gradient), 1, keepdims=True))


def by_mean(gradient):
    return gradient / tf.reduce_mean(tf.abs(gradient), 1, keepdims=True)


def penalty():
    """The size alone."""
    x = given()
    (gradient,) = tf.gradients(loss_of(x), [x])
    sgd().minimize(loss_of(x) + tf.reduce_mean((tf.norm(gradient, axis=1) - 1.0) ** 2))


def of_a_step(change):
    """What an optimizer does with gradients of variables."""

    def build():
        found = sgd().compute_gradients(loss_of(given()))
        sgd().apply_gradients([(change(gradient, w), w) for gradient, w in found])

    return build


DIRECTIONS = {
    "sign": perturbed(tf.sign),
    "sign of a part": perturbed(
        lambda g: tf.pad(tf.sign(tf.reshape(g, (16, 12))[:8]), [[0, 8], [0, 0]])
    ),
    "l2_normalize": perturbed(lambda g: tf.nn.l2_normalize(g, 1)),
    "by norm": perturbed(by_norm),
    "by largest": perturbed(by_largest),
    "by mean": perturbed(by_mean),
    "loop": in_a_loop,
}
OTHERS = {
    "itself": perturbed(tf.identity),
    "clipped": perturbed(lambda g: tf.clip_by_norm(g, 1.0)),
    "size": penalty,
    "sign in a step": of_a_step(lambda g, w: tf.sign(g)),
    "rates by layer": of_a_step(lambda g, w: g / tf.norm(g) * tf.norm(w)),
}


@pytest.mark.parametrize("scale", ["dynamic", "none"])
@pytest.mark.parametrize("name", DIRECTIONS)
def test_directions_of_gradients_that_may_vanish_are_said(name, scale):
    """With a cure that works; bfloat16 has the range of float32."""
    graph = built(DIRECTIONS[name])
    (row,) = said(graph, "GMP128", loss_scale=scale)
    assert "(1 such call)" in row["message"]
    rule = row["message"].split("'")[1]
    assert said(graph, "GMP128", loss_scale=scale, keep_float32=[rule]) == []
    assert said(graph, "GMP128", loss_scale=scale, compute_dtype="bfloat16") == []


@pytest.mark.parametrize("name", OTHERS)
def test_sizes_and_steps_are_no_directions(name):
    assert said(built(OTHERS[name]), "GMP128") == []
