"""Writes that steps share, and what shows that something else than training runs a write."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.structure.view import GraphView
from graphmp.scaling.plan.by_products import is_by_product
from tests.support.training_graphs import sgd, square

FEED = {"x:0": np.ones((4, 8), np.float32), "factor:0": 1.0}
OVERFLOW = dict(FEED, **{"factor:0": np.inf})


def model():
    """A value of a layer's outputs, times a factor."""
    x = tf.placeholder(tf.float32, (4, 8), "x")
    factor = tf.placeholder_with_default(1.0, (), "factor")
    hidden = tf.layers.dense(x, 8, name="hidden")
    return hidden, square(tf.layers.dense(hidden, 1, name="last")) * factor


def train_op(loss, others, name, variables=None):
    step = sgd().minimize(loss, var_list=variables)
    with tf.control_dependencies([step, *others]):
        return tf.no_op(name)


def counted(two, named=True):
    """One or two train ops that wait for one count."""
    _, loss = model()
    step = tf.train.get_or_create_global_step() if named else tf.Variable(0, False, name="count")
    count = tf.assign_add(step, 1, name="counting")
    train_op(loss, [count], "train")
    if two:
        train_op(loss, [count], "other", tf.trainable_variables("last"))


def converted(build, *args):
    with tf.Graph().as_default():
        build(*args)
        return graphmp.convert(tf.train.export_meta_graph())


def reasons(found, name):
    return {
        row["why"]
        for loss in found.report["losses"]
        for row in loss["not_skipped"]
        if row["node"].startswith(name)
    }


def told(found):
    return [row["message"] for row in found.report["warnings"] if row["code"] == "GMP112"]


def after_an_overflow(found, names, train="train"):
    """The values of variables before and after a step that overflows."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(found.meta_graph)
        session.run(tf.global_variables_initializer())
        session.run(train, FEED)  # finds the scale
        before = session.run(names, FEED)
        session.run(train, OVERFLOW)
        return before, session.run(names, FEED)


@pytest.mark.parametrize("named", [True, False], ids=["global step", "any count"])
def test_a_count_of_two_train_ops_goes_on_and_that_is_said(named):
    """Either op may be run alone: a flag of the other would take its gradients, too."""
    found = converted(counted, True, named)
    (why,) = reasons(found, "counting")
    assert why.startswith("the steps of several losses run it, and each may run alone")
    (message,) = told(found)
    assert message.startswith(why) and message.endswith("written in skipped steps too (1 write)")
    before, after = after_an_overflow(found, ["last/kernel:0"])
    assert np.array_equal(before, after)


@pytest.mark.parametrize("named", [True, False], ids=["global step", "any count"])
def test_a_count_of_one_train_op_is_skipped(named):
    found = converted(counted, False, named)
    assert not reasons(found, "counting") and not told(found)
    name = "global_step:0" if named else "count:0"
    before, after = after_an_overflow(found, [name, "last/kernel:0"])
    assert before[0] == after[0] == 1 and np.array_equal(before[1], after[1])


def test_statistics_of_two_train_ops_go_by_their_own_values():
    def build():
        hidden, loss = model()
        mean = tf.get_variable("mean", (8,), trainable=False)
        average = tf.assign_sub(mean, (mean - tf.reduce_mean(hidden, 0)) * 0.1, name="average")
        train_op(loss, [average], "train")
        train_op(loss, [average], "other", tf.trainable_variables("last"))

    found = converted(build)
    (why,) = reasons(found, "average")
    assert why == (
        "the steps of several losses run it: it goes by whether all that is written with it is"
        " finite"
    )
    assert not told(found)


def test_a_global_step_that_gradients_wait_for_is_said():
    def build():
        step = tf.train.get_or_create_global_step()
        with tf.control_dependencies([tf.assign_add(step, 1, name="counting")]):
            _, loss = model()
        sgd().minimize(loss, name="train")

    found = converted(build)
    assert reasons(found, "counting") == {"the loss's flag depends on it"}
    assert len(told(found)) == 1


def test_an_assertion_between_two_writes_runs_neither():
    """Its unread constants wait for the first write."""

    def build(checks):
        _, loss = model()
        steps, done = (tf.Variable(0, trainable=False, name=name) for name in ("steps", "done"))
        gradients = sgd().compute_gradients(loss)
        with tf.control_dependencies([gradient for gradient, _ in gradients]):
            first = tf.assign_add(steps, 1, name="counting")
        with tf.control_dependencies([first]):
            checked = tf.assert_less(done, 99) if checks else first
        with tf.control_dependencies([first, checked]):
            second = tf.assign_add(done, 1, name="counting_too")
        with tf.control_dependencies([second]):
            gradients = [(tf.identity(gradient), variable) for gradient, variable in gradients]
        sgd().apply_gradients(gradients, name="train")

    for checks in (True, False):
        found = converted(build, checks)
        assert not reasons(found, "counting"), checks
        before, after = after_an_overflow(found, ["steps:0", "done:0"])
        assert before == after == [1, 1]


def test_what_may_be_fetched_alone_runs_a_write():
    def build():
        _, loss = model()
        count = tf.assign_add(tf.Variable(0, trainable=False, name="count"), 1, name="counting")
        train_op(loss, [count], "train")
        with tf.control_dependencies([count]):
            tf.identity(loss, name="shown")

    found = converted(build)
    assert reasons(found, "counting") == {"something else than training runs it too"}
    before, after = after_an_overflow(found, ["count:0"])
    assert (before, after) == ([1], [2])


def in_a_race(order):
    """A step counts, and reads the count after another write.

    `order`: "none", "waits" if the reader waits for the count, "early" if nothing is ahead of it.
    """
    _, loss = model()
    runs, count = (
        tf.get_variable(n, (), tf.int32, tf.zeros_initializer(), trainable=False)
        for n in ("runs", "count")
    )
    counting = tf.assign_add(count, 1, name="counting")
    ahead = tf.assign_add(runs, 1, name="running")
    with tf.control_dependencies({"none": [ahead], "waits": [ahead, counting], "early": []}[order]):
        rate = (
            tf.cast(count, tf.float32, name="rate")
            if order == "early"
            else tf.where(tf.greater(count, tf.constant(0)), 0.1, 0.2)
        )
    step = tf.train.GradientDescentOptimizer(rate).minimize(loss)
    tf.group(step, counting, ahead, name="train")


@pytest.mark.parametrize("order", ["none", "waits", "early"])
def test_a_count_that_is_read_in_no_order_is_written_as_early_as_it_was(order):
    found = converted(in_a_race, order)
    raced = order == "none"
    (loss,) = found.report["losses"]
    assert ("counting" in loss["gated"]) is not raced and "running" in loss["gated"]
    assert [("in no order with this one" in row) for row in told(found)] == [True] * raced
    before, after = after_an_overflow(found, ["count:0", "last/kernel:0"])
    assert after[0] == before[0] + raced and np.array_equal(before[1], after[1])


def test_by_products(graph):
    """What tf.cond, assertions, lists of numbers and sliced assignments leave unread."""
    v = tf.get_variable("v", [4], use_resource=True)
    x = tf.placeholder(tf.float32, [None, 3], "x")
    tf.cond(tf.reduce_all(x > 0), lambda: tf.no_op(), lambda: tf.group(v[1].assign(1.0)))
    tf.constant(1, name="alone")
    tf.convert_to_tensor([tf.shape(x)[0], 3])
    tf.stack([tf.shape(x)[0], 3], name="stacked")
    tf.identity(x, name="shown")
    x[0]
    view = GraphView(graph.as_graph_def())
    unread = [n for n in view.nodes if not view.consumers(n) and not view.control_consumers(n)]
    kinds = {view.nodes[n].op for n in unread if is_by_product(view, n)}
    assert (
        {"Const", "Pack", "StridedSlice"} <= kinds <= {"Const", "Pack", "StridedSlice", "Identity"}
    )
    assert not is_by_product(view, "stacked") and not is_by_product(view, "shown")
    (plain,) = [
        n for n in unread if view.nodes[n].op == "StridedSlice" and view.inputs(n)[0].node == "x"
    ]
    assert not is_by_product(view, plain)
