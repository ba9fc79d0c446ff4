"""Writes of every kind that wait for an update.

A skipped step changes nothing, a good one writes.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.painting import built, inserted, nodes
from tests.support.scaled import changed, session
from tests.support.structure import needs_tf2, of_op
from tests.support.training import state
from tests.support.training_graphs import sgd, square

ROWS, VALUES = [2, 0], np.full((2, 3), 0.5, np.float32)
GOOD, BAD = {"factor:0": 1.0}, {"factor:0": np.inf}


def after_an_update(write, use_resource):
    """A graph whose train op takes a step of gradient descent and then writes; its conversion."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            w = tf.get_variable("w", (2, 2))
            loss = square(w) * tf.placeholder(tf.float32, (), "factor")
            train = sgd().minimize(loss, tf.train.get_or_create_global_step())
            with tf.control_dependencies([train]):
                tf.group(*write(), name="train")
            tf.global_variables_initializer()

    meta_graph = built(build)
    return (
        meta_graph,
        graphmp.convert(meta_graph, loss_scale_initial=64.0, compute_dtype="float32").meta_graph,
    )


def held(name, rows=4):
    """A variable whose first row is 1, 0 and -0; adding 0 would change the last."""
    values = np.ones((rows, 3), np.float32)
    values[0] = [1.0, 0.0, -0.0]
    return tf.get_variable(name, initializer=values, trainable=False)


def assigned():
    yield held("assigned").assign(np.zeros((4, 3), np.float32))
    yield held("added", 1).assign_add(
        np.ones((1, 3), np.float32)
    )  # 1.15.5 folds a larger constant of -0 to one of 0
    yield held("subtracted").assign_sub(np.ones((4, 3), np.float32))
    yield held("slice")[1:3, ::2].assign(np.zeros((2, 2), np.float32))


def scattered():
    for kind in ("update", "add", "sub", "mul", "div", "min", "max"):
        yield getattr(tf, "scatter_" + kind)(held(kind), ROWS, VALUES * (3 if kind == "max" else 1))


def scattered_by_more_indices():
    rows = [[row] for row in ROWS]
    for kind in ("update", "add", "sub"):
        yield getattr(tf, "scatter_nd_" + kind)(held("nd_" + kind), rows, VALUES)
    for kind, values in (("Min", VALUES), ("Max", VALUES * 3)):
        op = getattr(
            tf.raw_ops, "Resource" * tf.get_variable_scope().use_resource + "ScatterNd" + kind, None
        )
        if op is not None:  # 1.15.5 has none
            yield op(ref=held("nd_" + kind).op.outputs[0], indices=rows, updates=values)


def given_another_shape():
    """Only a reference variable can be assigned another shape."""
    yield tf.assign(held("grown"), np.zeros((5, 3), np.float32), validate_shape=False)


KINDS = (assigned, scattered, scattered_by_more_indices)
WRITES = [(write, use_resource) for write in KINDS for use_resource in (False, True)]


@pytest.mark.parametrize("write, use_resource", [*WRITES, (given_another_shape, False)])
def test_a_skipped_step_writes_nothing_and_a_good_one_all(write, use_resource):
    with session(after_an_update(write, use_resource)[1]) as sess:
        fresh = state(sess)
        sess.run("train", BAD)
        skipped = state(sess)
        assert [name for name in changed(fresh, skipped) if not name.startswith("graphmp/")] == []
        sess.run("train", GOOD)
        after = state(sess)
        own = {name for name in after if not name.startswith("graphmp/")}
        assert own <= set(changed(skipped, after)) and after["global_step"] == 1


@pytest.mark.unit
@pytest.mark.parametrize("use_resource", [False, True])
def test_what_skips_stands_below_its_own_scope(use_resource):
    """Nodes there are never half, and no node of the model has such a name."""
    before, after = after_an_update(assigned, use_resource)
    assert {name.split("/")[0] for name in inserted(before, after)} == {"graphmp"}


@pytest.mark.unit
@pytest.mark.parametrize("use_resource", [False, True])
def test_an_update_is_dead_by_its_gradient(use_resource):
    """Not by a learning rate, which other nodes may read."""
    _, after = after_an_update(assigned, use_resource)
    (update,) = of_op(after, "ApplyGradientDescent", "ResourceApplyGradientDescent")
    skips = [
        nodes(after)[text.split(":")[0]].op == "Switch"
        for text in update.input
        if not text.startswith("^")
    ]
    assert skips == [False, False, True]


@needs_tf2
def test_a_function_that_updates_and_returns_nothing_is_skipped():
    """Its call is dead by its input, the gradient."""

    def build():
        w = tf.get_variable("w", (2, 2), use_resource=True)

        @tf.function
        def update(times, gradient):
            w.assign_sub(0.1 * tf.cast(times, tf.float32) * gradient)

        (gradient,) = tf.gradients(square(w) * tf.placeholder(tf.float32, (), "factor"), [w])
        update(tf.constant(1), gradient)
        (call,) = [
            op for op in tf.get_default_graph().get_operations() if "PartitionedCall" in op.type
        ]
        tf.group(call, name="train")
        tf.global_variables_initializer()

    converted = graphmp.convert(built(build), loss_scale_initial=64.0)
    (call,) = of_op(converted.meta_graph, "StatefulPartitionedCall", "PartitionedCall")
    assert ["/skip/" in text for text in call.input if not text.startswith("^")] == [
        False,
        True,
        False,
    ]
    with session(converted.meta_graph) as sess:
        fresh = state(sess)
        sess.run("train", BAD)
        skipped = state(sess)
        sess.run("train", GOOD)
        assert "w" not in changed(fresh, skipped) and "w" in changed(skipped, state(sess))


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_branch_that_is_not_taken_stays_so_on_a_skipped_step(use_resource):
    """Nodes there that wait for an update run on a skipped step, if the branch is taken."""

    def build():
        w = tf.get_variable("w", (2, 2), use_resource=use_resource)
        pairs = sgd().compute_gradients(square(w) * tf.placeholder(tf.float32, (), "factor"))

        def taken():
            with tf.control_dependencies([sgd().apply_gradients(pairs)]):
                failed = tf.raw_ops.Assert(condition=False, data=["taken"])
            with tf.control_dependencies([failed]):
                return tf.constant(1)

        tf.cond(tf.placeholder(tf.bool, (), "take"), taken, lambda: tf.constant(0), name="train")
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build), loss_scale_initial=64.0).meta_graph) as sess:
        before = state(sess)
        assert sess.run("train/Merge:0", dict(BAD, **{"take:0": False})) == 0
        with pytest.raises(tf.errors.InvalidArgumentError, match="taken"):
            sess.run("train/Merge:0", dict(BAD, **{"take:0": True}))
        assert "w" not in changed(before, state(sess))
