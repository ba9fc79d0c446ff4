"""Gradients applied in a conditional of functions whose results are read."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.control_flow import control_flow
from tests.support.painting import built
from tests.support.proved import Planted, open_claims
from tests.support.scaled import session
from tests.support.training import state
from tests.support.training_graphs import square, vectors

X = np.random.RandomState(0).randn(8, 12).astype(np.float32)


def nothing():
    return tf.no_op()


def applied(apply):
    """An op alone: the result is the predicate."""
    return tf.cond(predicate(), lambda: tf.group(apply()), nothing)


def counted(apply):
    """A number of each branch."""
    return tf.cond(predicate(), lambda: behind(apply(), 1.0), lambda: tf.constant(0.0))


def turned_round(apply):
    """The branch that is taken where the predicate is false applies."""
    return tf.cond(
        tf.logical_not(predicate()), lambda: tf.constant(0.0), lambda: behind(apply(), 1.0)
    )


def nested(apply):
    """The other branch has a conditional of its own, and reads variables."""

    def read():
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            weight = tf.reduce_sum(tf.get_variable("w"))
        return tf.cond(weight > 0.0, lambda: weight, lambda: -weight)

    return tf.cond(predicate(), lambda: behind(apply(), 1.0), read)


def both_write(apply):
    def handle():
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            return behind(tf.get_variable("bad").assign_add(1.0), 0.0)

    return tf.cond(predicate(), lambda: behind(apply(), 1.0), handle)


def other_branch_tests(apply):
    """The other branch may end the run."""
    on = predicate()
    return tf.cond(on, lambda: behind(apply(), 1.0), lambda: behind(tf.Assert(on, ["never"]), 0.0))


def predicate():
    return tf.get_default_graph().get_tensor_by_name("on:0")


def behind(op, value):
    with tf.control_dependencies([op]):
        return tf.constant(value)


def original(choose, by_hand=False):
    """A step in a conditional of functions, with a count of the steps behind it."""

    def build():
        x, _ = vectors(), tf.placeholder(tf.bool, (), "on")
        factor = tf.placeholder_with_default(1.0, (), "factor")
        with tf.variable_scope("", use_resource=True):
            w = tf.get_variable("w", (12, 1))
            tf.get_variable("bad", (), initializer=tf.zeros_initializer(), trainable=False)
            steps = tf.train.get_or_create_global_step()
        (gradient,) = tf.gradients(factor * square(tf.matmul(x, w)), w)
        optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
        with tf.variable_scope("", use_resource=True):
            optimizer._create_slots([w])

        def apply():
            if by_hand:
                return w.assign_sub(0.01 * gradient)
            return optimizer._resource_apply_dense(gradient, w)

        optimizer._prepare()
        with control_flow(True), tf.variable_scope(tf.get_variable_scope(), use_resource=True):
            chosen = choose(apply)
        tf.identity(chosen if not isinstance(chosen, tf.Operation) else chosen.outputs[0], "result")
        with tf.control_dependencies([chosen]):
            tf.group(tf.assign_add(steps, 1), name="train")
        tf.global_variables_initializer()

    return built(build)


@pytest.mark.parametrize("by_hand", [False, True], ids=["momentum", "by_hand"])
@pytest.mark.parametrize("choose", [applied, counted, turned_round, nested])
def test_a_skipped_step_takes_the_branch_without_effects(choose, by_hand):
    graph = original(choose, by_hand)
    converted = graphmp.convert(graph)
    (loss,) = converted.report["losses"]
    assert loss["not_skipped"] == [] and open_claims(graph, converted.meta_graph) == {}
    assert [row for row in converted.report["checks"] if row["status"] == "failed"] == []
    with session(converted.meta_graph) as sess:

        def step(**values):
            """What a step changes, and its result."""
            before = state(sess)
            feed = {"x:0": X, "on:0": True, **{name + ":0": v for name, v in values.items()}}
            result = sess.run(["result:0", "train"], feed)[0]
            after = state(sess)
            assert all(np.all(np.isfinite(value)) for value in after.values())
            scales.append(after["graphmp/loss_scale/scale"])
            moved = {name for name in after if not np.array_equal(after[name], before[name])}
            return {name for name in moved if not name.startswith("graphmp/")}, result

        scales = []
        whole = {"w", "global_step"} | (set() if by_hand else {"w/Momentum"})
        assert step() == (whole, 1.0)
        changed, result = step(factor=1e30)
        assert changed == set() and (choose is applied or result != 1.0)
        assert scales[1] == scales[0] / 2
        assert step(on=False)[0] == {"global_step"}
        assert step() == (whole, 1.0)


@pytest.mark.parametrize("choose", [both_write, other_branch_tests])
def test_a_conditional_without_a_branch_that_does_nothing_is_said(choose):
    graph = original(choose)
    converted = graphmp.convert(graph)
    (row,) = [row for row in converted.report["warnings"] if row["code"] == "GMP112"]
    assert "nothing can stand in" in row["message"]
    assert list(open_claims(graph, converted.meta_graph)) == ["steps are skipped whole"]


def no_gate(graph, taken, call):
    call.input[0] = taken.input[1]


def another_op(graph, taken, call):
    taken.op = {"LogicalAnd": "LogicalOr", "LogicalOr": "LogicalAnd"}[taken.op]


def another_sense(graph, taken, call):
    """The flag itself, or its opposite."""
    source = graph.nodes[taken.input[0]]
    if source.op == "LogicalNot":
        taken.input[0] = source.input[0]
    else:
        graph.add("graphmp/not", "LogicalNot", [taken.input[0]])
        taken.input[0] = "graphmp/not"


def exchanged_branches(graph, taken, call):
    then, other = (call.attr[key].func.name for key in ("then_branch", "else_branch"))
    call.attr["then_branch"].func.name, call.attr["else_branch"].func.name = other, then


def no_branch_without_effects(graph, taken, call):
    call.attr["else_branch"].func.name = call.attr["then_branch"].func.name


@pytest.mark.parametrize("choose", [counted, turned_round])
@pytest.mark.parametrize(
    "spoil", [no_gate, another_op, another_sense, exchanged_branches, no_branch_without_effects]
)
def test_faults_of_the_gate_are_found(choose, spoil):
    graph = original(choose)
    planted = Planted(graphmp.convert(graph).meta_graph)
    (call,) = [node for node in planted.nodes.values() if node.op == "If"]
    spoil(planted, planted.nodes[call.input[0]], call)
    assert open_claims(graph, planted.meta_graph) != {}
