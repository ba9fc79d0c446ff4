"""A conversion does what was planned."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.painting.paint import HALF
from graphmp.rewrite.pipeline import decide, rewrite
from tests.support.training_graphs import SHAPES, square, vectors

pytestmark = pytest.mark.unit


def limited():
    """The gradient of a layer is at most 1, by a custom gradient.

    The 1 is multiplied by the scale, which float16 can't hold.
    """

    @tf.custom_gradient
    def limit(value):
        return tf.identity(value), lambda grad: tf.minimum(grad, 1.0)

    hidden = limit(tf.layers.dense(vectors(), 8, use_bias=False))
    tf.train.GradientDescentOptimizer(0.1).minimize(
        square(tf.layers.dense(hidden, 4, use_bias=False))
    )


def half_nodes(meta_graph):
    """The half nodes, as decided and as converted."""
    config, policy = Config.make(), Policy.default("float16")
    decided = decide(meta_graph, config, policy)[""]
    before = {
        unit.node
        for unit, paint in zip(decided.graph.units, decided.placed)
        if paint.colour == HALF
    }
    done = rewrite(meta_graph, config, policy).record.done
    return before, {
        node for node, did, _ in done if did == "painted" and node in decided.graph.view.nodes
    }


def exported(build):
    with tf.Graph().as_default():
        build()
        return tf.train.export_meta_graph()


def test_a_gradient_that_is_compared_with_a_number_stays_float32():
    decided, done = half_nodes(exported(limited))
    minimum = [name for name in decided | done if name.endswith("Minimum")]
    assert decided == done and decided and not minimum


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_what_is_half_is_known_ahead(name):
    decided, done = half_nodes(exported(SHAPES[name].build))
    assert decided == done


def test_activations_that_are_given_gradients_may_be_half():
    """The user's own seed shows that they are no loss."""

    def build():
        w = tf.get_variable("w", (12, 8))
        y = tf.matmul(vectors(), w, name="y")
        (gradient,) = tf.gradients(y, w, tf.placeholder(tf.float32, (8, 8)))
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, w)])

    assert "y" in half_nodes(exported(build))[0]
