"""Proofs of steps in while loops of TensorFlow 1."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.compare.review.flow import flows
from graphmp.executed.variables import VariableSession
from graphmp.graph.structure.view import GraphView
from tests.support.painting import built
from tests.support.training_graphs import sgd, square, vectors


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("optimizer", [sgd, lambda: tf.train.MomentumOptimizer(0.01, 0.9)])
def test_an_iteration_that_waits_for_updates_alone_is_proved(optimizer, use_resource):
    """They die in a skipped step; what lives in their place waits for the scale's update."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            w = tf.get_variable("w", (12, 1))
        x, trained = vectors(), optimizer()

        def body(number):
            with tf.control_dependencies([trained.minimize(square(tf.matmul(x, w)))]):
                return number + 1

        tf.identity(tf.while_loop(lambda number: number < 3, body, [0]), name="train")

    checks = graphmp.convert(built(build)).report["checks"]
    assert [row for row in checks if row["status"] == "failed"] == []


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_a_first_step_that_measures_what_leaves_a_loop_is_proved(use_resource):
    """An Exit's output exists once, outside of its loop."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            w = tf.get_variable("w", (12, 1))
        x = vectors()

        def body(turn, total):
            (gradient,) = tf.gradients(square(tf.matmul(x[4 * turn : 4 * turn + 4], w)), [w])
            return turn + 1, total + gradient

        _, total = tf.while_loop(lambda turn, _: turn < 2, body, [0, tf.zeros((12, 1))])
        sgd().apply_gradients([(total, w)], name="train")

    converted = graphmp.convert(built(build))
    assert any("/largest_of/while/Exit" in n.name for n in converted.meta_graph.graph_def.node)
    assert [row for row in converted.report["checks"] if row["status"] == "failed"] == []


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_an_update_behind_a_loop_that_trains(use_resource):
    """It runs once, whichever iterations are skipped; that is said."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            slow = tf.get_variable("slow", (12, 1))
            fast = tf.get_variable("fast", (12, 1), trainable=False)
        x = vectors()

        def body(number):
            with tf.control_dependencies(
                [sgd().minimize(square(tf.matmul(x, fast)), None, [fast])]
            ):
                return number + 1

        last = tf.while_loop(lambda number: number < 3, body, [0], parallel_iterations=1)
        with tf.control_dependencies([last]):
            apart = slow - tf.identity(fast)
            tf.train.AdamOptimizer(0.1).apply_gradients([(apart, slow)], name="train")

    converted = graphmp.convert(built(build))
    claims = {row["name"]: row for row in converted.report["checks"]}
    assert not [name for name, row in claims.items() if row["status"] == "failed"]
    assert "written once behind a loop" in claims["steps are skipped whole"]["text"]
    (row,) = [row for row in converted.report["warnings"] if row["code"] == "GMP112"]
    assert row["node"].startswith("train/update_slow/") and "(3 writes)" in row["message"]
    (flow,) = flows(GraphView(converted.meta_graph.graph_def), lambda name: False)
    assert flow.is_dynamic and flow.initial == 2**15
    with VariableSession(converted.meta_graph, ["train"]) as session:
        assert {"slow", "fast"} <= session.values().keys()


def unordered():
    """Each iteration counts on whether the update of the one before has been made or not."""
    w, x, trained = tf.get_variable("w", (12, 1)), vectors(), sgd()

    def body(number, _):
        more, loss = number + 1, square(tf.matmul(x, w))
        with tf.control_dependencies([trained.minimize(loss)]):
            return more, tf.identity(loss)

    _, last = tf.while_loop(lambda number, _: number < 3, body, [0, 0.0])
    tf.identity(last, name="train")


@pytest.mark.unit
@pytest.mark.parametrize("flags, wrong", [({}, []), ({"clip_norm": 1.0}, ["parameters"])])
def test_a_loop_that_cannot_be_scaled_is_no_false_claim(flags, wrong):
    """A warning says that there is no scale, and the mark claims none; a clip was asked for."""
    report = graphmp.convert(built(unordered), **flags).report
    (row,) = report["warnings"]
    assert row["code"] == "GMP110" and ("nor clipped" in row["message"]) == bool(flags)
    assert [row["name"] for row in report["checks"] if row["status"] == "failed"] == wrong
