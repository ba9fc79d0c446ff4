"""Statistics of a second loss's gradients, written in branches ahead of the updates.

What is computed from them is written in another branch, and preconditions the updates, as in K-FAC.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.verify import verify
from tests.support.proved import open_claims

R = np.random.RandomState(0)
FEED = {"x:0": R.randn(16, 8).astype(np.float32), "factor:0": 1.0, "by:0": 1.0, "rate:0": 0.1}
GRADIENTS_OVERFLOW = dict(FEED, **{"factor:0": np.inf})
STATISTICS_OVERFLOW = dict(FEED, **{"by:0": np.inf})
OF_STATISTICS = ("moment", "inverse")
STATE = ("w", *OF_STATISTICS, "seen", "inverted", "runs")


def variable(name, value):
    return tf.get_variable(name, initializer=value, trainable=False)


def model(shown, nested):
    """A step of statistics, their inverse, and an update by it.

    Args:
        shown: whether something waits for the statistics that may be fetched alone.
        nested: whether the inverse's branch is inside another.
    """
    x = tf.placeholder(tf.float32, [16, 8], "x")
    factor, by, rate = (tf.placeholder(tf.float32, [], name) for name in ("factor", "by", "rate"))
    weights = np.random.RandomState(1).randn(8, 4).astype(np.float32)
    w = tf.get_variable("w", initializer=weights)
    moment, inverse = (variable(name, np.eye(4, dtype=np.float32)) for name in OF_STATISTICS)
    seen, inverted, runs = (variable(name, 0) for name in ("seen", "inverted", "runs"))
    outputs = tf.matmul(x, w)
    gradient = tf.gradients(tf.reduce_mean(tf.square(outputs)) * factor, [w])[0]
    sampled = tf.reduce_sum(tf.square(outputs - tf.stop_gradient(outputs + tf.ones([16, 4]))))
    (of_outputs,) = tf.gradients(sampled, outputs, name="sampled")
    covariance = tf.matmul(of_outputs, of_outputs, transpose_a=True) / 16.0 * by

    def write(op, value):
        with tf.control_dependencies([op(moment, value())]):
            return tf.group(tf.assign_add(seen, 1))

    def invert():
        with tf.control_dependencies([tf.assign(inverse, tf.matrix_inverse(moment))]):
            return tf.group(tf.assign_add(inverted, 1))

    with tf.control_dependencies([tf.assign_add(runs, 1)]):
        statistics = tf.cond(
            seen < 2,
            lambda: write(tf.assign_add, lambda: 0.1 * covariance),
            lambda: write(tf.assign, lambda: 0.9 * moment + 0.1 * covariance),
        )
    with tf.control_dependencies([statistics]):
        if nested:
            inverses = tf.cond(
                seen > 0, lambda: tf.cond(seen > 0, invert, tf.no_op), lambda: tf.no_op()
            )
        else:
            inverses = tf.cond(seen > 0, invert, tf.no_op)
        if shown:
            tf.identity(outputs, name="shown")
    with tf.control_dependencies([inverses]):

        def preconditioned():
            found = tf.matmul(gradient, inverse)
            tf.norm(found, name="unread")  # nobody can fetch it
            return tf.minimum(1.0, tf.norm(gradient * rate)) * found

        step = tf.cond(inverted > 0, preconditioned, lambda: gradient)
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        update = tf.cond(
            runs > 0, lambda: optimizer.apply_gradients([(step, w)]), lambda: tf.no_op()
        )
    tf.group(statistics, inverses, update, name="train")


def graphs(*args, use_resource=False):
    """The graph and its conversion in float32."""
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        model(*args)
        original = tf.train.export_meta_graph()
    return original, graphmp.convert(original, compute_dtype="float32")


def after(meta_graph, *feeds):
    """The state after one step for each feed, by name."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta_graph)
        session.run(tf.global_variables_initializer())
        for feed in feeds:
            session.run("train", feed)
        state = {each.op.name: each for each in tf.global_variables()}
        return session.run({name: state[name] for name in STATE})


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_an_unread_node_of_a_branch_runs_no_write(use_resource):
    """All that the step writes goes by the flag of its loss."""
    original, found = graphs(False, False, use_resource=use_resource)
    (loss,) = found.report["losses"]
    assert [row["node"] for row in loss["not_skipped"]] == []
    assert not open_claims(original, found.meta_graph)
    before, later = (after(found.meta_graph, FEED, *more) for more in ([], [GRADIENTS_OVERFLOW]))
    for name in STATE:
        assert np.array_equal(before[name], later[name]), name


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_what_is_made_of_statistics_goes_by_their_values(shown, nested, use_resource):
    """In either branch of the statistics; it isn't computed anew from those of an earlier step."""
    original, found = graphs(shown, nested, use_resource=use_resource)
    assert not open_claims(original, found.meta_graph)
    for steps in (1, 3):
        before = after(found.meta_graph, *[FEED] * steps)
        later = after(found.meta_graph, *[FEED] * steps, STATISTICS_OVERFLOW)
        assert np.isfinite(later["w"]).all() and not np.array_equal(before["w"], later["w"])
        for name in OF_STATISTICS:
            assert np.array_equal(before[name], later[name]), name


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shown", [False, True])
def test_finite_steps_write_what_they_wrote(shown, nested):
    original, found = graphs(shown, nested)
    one, other = (after(graph, *[FEED] * 5) for graph in (original, found.meta_graph))
    for name in STATE:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, err_msg=name)


def test_a_flag_that_looks_at_no_statistics_is_found():
    """The inverse goes by its own values, and not by those of the moments in either branch."""
    original, found = graphs(True, False)
    meta_graph = found.meta_graph
    for node in meta_graph.graph_def.node:
        if node.op == "LogicalAnd" and "in_branch" in node.input[1]:
            node.input[1] = node.input[0]
    claims = {claim.name: claim for claim in verify(original, meta_graph).claims}
    claim = claims["steps are skipped whole"]
    assert claim.verdict == "failed" and "of which it is made, is skipped" in claim.text
