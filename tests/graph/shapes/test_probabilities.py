"""Placeholders of unknown rank that hold a probability of dropout."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.probabilities import probabilities
from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import FLOAT16
from tests.support import painting


def by_floor(x, keep):
    """Dropout of TensorFlow before 1.13."""
    return tf.realdiv(x, keep) * tf.floor(keep + tf.random_uniform(tf.shape(x)))


def by_comparison(x, keep):
    """Dropout of TensorFlow 1.14 on."""
    rate = 1.0 - keep
    mask = tf.cast(tf.greater_equal(tf.random_uniform(tf.shape(x)), rate), tf.float32)
    return x * (1.0 / (1.0 - rate)) * mask


def sampled(x, keep):
    """Compared with random numbers, and nothing is scaled by it."""
    return x + tf.cast(tf.random_uniform(tf.shape(x)) < keep, tf.float32)


def scaled(x, keep):
    """No random numbers."""
    return x / keep


@pytest.mark.unit
@pytest.mark.parametrize(
    "build, shape, found",
    [
        (by_floor, None, True),
        (by_comparison, None, True),
        (by_floor, [None, 6], False),
        (sampled, None, False),
        (scaled, None, False),
    ],
)
def test_a_probability_is_what_random_numbers_are_compared_with_and_scales(build, shape, found):
    with tf.Graph().as_default() as graph:
        build(
            tf.placeholder(tf.float32, [None, 6]),
            tf.placeholder(tf.float32, shape, name="keep"),
        )
    view = GraphView(with_inferred_shapes(graph.as_graph_def()))
    assert probabilities(view) == (frozenset({"keep"}) if found else frozenset())


@pytest.mark.unit
@pytest.mark.parametrize("dropout", [by_floor, by_comparison])
def test_gradients_of_a_dropout_of_unknown_shape_are_half(dropout):
    def train():
        x = tf.placeholder(tf.float32, [None, 16], "x")
        keep = tf.placeholder(tf.float32, name="keep")
        hidden = tf.nn.relu(tf.layers.dense(x, 64, name="before"))
        with tf.name_scope("dropout"):
            dropped = dropout(hidden, keep)
        y = tf.matmul(dropped, tf.get_variable("after", [64, 16]))
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(y)))

    nodes = painting.converted(painting.built(train)).graph_def.node
    sums = [n for n in nodes if "/dropout/" in n.name and n.op == "Sum"]
    assert len(sums) >= 4
    wide = [n.name for n in sums if n.attr["T"].type != FLOAT16]
    assert not wide
