"""The report lists what a skipped step changes all the same."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.recipe.record import record
from tests.support.models import TARGETS, VECTORS, two_layers
from tests.support.training import state


def step(beside=lambda loss: [], **options):
    """A converted step, with what else its train op waits for.

    The third input is multiplied into the loss.
    """

    @graphmp.mixed_precision(loss_scale="dynamic", loss_scale_initial=64.0, **options)
    def build(x, y, factor):
        loss = tf.losses.mean_squared_error(y, two_layers(x)) * factor
        with tf.control_dependencies(beside(loss)):
            return tf.train.AdamOptimizer(0.01).minimize(
                loss, global_step=tf.train.get_or_create_global_step()
            )

    inputs = (
        tf.placeholder(tf.float32, (None, 12)),
        tf.placeholder(tf.float32, (None, 1)),
        tf.placeholder(tf.float32, ()),
    )
    return build(*inputs), inputs


def losses(**options):
    return record(tf.get_default_graph(), Config.make(**options)).losses


def changed_when_skipped(train, inputs):
    """The model's variables that a step changes whose loss is infinite."""
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train, dict(zip(inputs, (VECTORS, TARGETS, 1.0))))
        before = state(sess)
        sess.run(train, dict(zip(inputs, (VECTORS, TARGETS, np.inf))))
        after = state(sess)
    return {
        name
        for name in before
        if before[name].tobytes() != after[name].tobytes() and not name.startswith("graphmp/")
    }


def written(op):
    """The variable that an op writes, also on one side of a conditional."""
    found = op.inputs[0].op
    while found.type in ("Switch", "RefSwitch"):
        found = found.inputs[0].op
    return found.name


def listed(row):
    graph = tf.get_default_graph()
    return {
        written(graph.get_operation_by_name(each["node"])): each["why"]
        for each in row["not_skipped"]
    }


def test_a_plain_step_changes_nothing():
    with tf.Graph().as_default():
        step()
        (row,) = losses()
    assert row["not_skipped"] == [] and len(row["gated"]) == len(row["updates"]) > 4


@pytest.mark.parametrize(
    "options, counts", [({}, set()), ({"count_skipped_steps": True}, {"global_step"})]
)
def test_what_is_listed_is_what_changes(options, counts):
    def counter(loss):
        return [
            tf.assign_add(
                tf.get_variable(
                    "seen",
                    (),
                    initializer=tf.zeros_initializer(),
                    trainable=False,
                    use_resource=False,
                ),
                1.0,
            )
        ]

    with tf.Graph().as_default():
        train, inputs = step(counter, **options)
        (row,) = losses(**options)
        assert set(listed(row)) == changed_when_skipped(train, inputs) == {"seen"} | counts
        assert not set(row["gated"]) & {each["node"] for each in row["not_skipped"]}


def test_random_numbers_are_listed_and_unconverted_losses_are_not():
    with tf.Graph().as_default():
        step(lambda loss: [tf.random_uniform((), name="noise")])
        (row,) = losses()
    assert [each["node"] for each in row["not_skipped"]] == ["noise/RandomUniform"]
