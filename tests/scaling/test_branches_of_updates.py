"""Steps beside conditionals of the model's own: which writes are skipped with them.

Updates in a branch beside updates outside, and the model's own handling of bad gradients.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.control_flow import control_flow
from tests.support.painting import built
from tests.support.scaled import session
from tests.support.structure import TF2
from tests.support.training import state
from tests.support.training_graphs import net, sgd, square, vectors

X = np.random.RandomState(0).randn(8, 12).astype(np.float32)
RESOURCES = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


def count(name, use_resource):
    return tf.get_variable(
        name, (), tf.int32, tf.zeros_initializer(), trainable=False, use_resource=use_resource
    )


def losses():
    """Two losses with a factor each, the variables of each, and a flag."""
    x, flag = vectors(), tf.placeholder(tf.bool, (), "flag")
    found = []
    for name in ("a", "b"):
        loss = tf.placeholder(tf.float32, (), name + "_factor") * square(net(x, name))
        found.append((loss, tf.trainable_variables(name + "/")))
    return found, flag


def taken_in_a_branch(optimizer, loss, variables, flag):
    return tf.cond(
        flag, lambda: tf.group(optimizer.minimize(loss, var_list=variables)), lambda: tf.no_op()
    )


def applied_in_a_branch(optimizer, loss, variables, flag):
    gradients = optimizer.compute_gradients(loss, variables)
    return tf.cond(flag, lambda: tf.group(optimizer.apply_gradients(gradients)), lambda: tf.no_op())


def initialised(build):
    def build_all():
        build()
        tf.global_variables_initializer()

    return built(build_all)


def steps(build, feeds):
    """For each step the names of the counts and nets that it changes, and the report."""
    converted = graphmp.convert(initialised(build))
    found = []
    with session(converted.meta_graph) as sess:
        for feed in feeds:
            before = state(sess)
            sess.run("train", feed)
            after = state(sess)
            assert all(np.all(np.isfinite(value)) for value in after.values())
            changed = {name for name in after if not np.array_equal(after[name], before[name])}
            found.append("".join(sorted({n.split("/")[0] for n in changed if "graphmp" not in n})))
    return found, converted.report


def failed(report):
    return [row["name"] for row in report["checks"] if row["status"] == "failed"]


@RESOURCES
@pytest.mark.parametrize("in_a_branch", [taken_in_a_branch, applied_in_a_branch])
def test_steps_are_counted_where_one_of_two_trains(in_a_branch, use_resource):
    """An update in a branch that isn't taken trains nothing, whatever its gradients."""

    def build():
        (a, b), flag = losses()
        train = sgd().minimize(a[0], var_list=a[1])
        other = in_a_branch(sgd(), *b, flag)
        with tf.control_dependencies([train, other]):
            tf.group(tf.assign_add(count("n", use_resource), 1), name="train")

    def feed(a, b, flag):
        return {"x:0": X, "a_factor:0": a, "b_factor:0": b, "flag:0": flag}

    found, report = steps(
        build,
        [
            feed(1, 1, True),
            feed(1, 1, False),
            feed(np.inf, 1, True),
            feed(np.inf, 1, False),
            feed(1, np.inf, True),
            feed(np.inf, np.inf, True),
        ],
    )
    assert found == ["abn", "an", "bn", "", "an", ""] and failed(report) == []


@RESOURCES
def test_steps_of_two_branches_are_counted_where_that_which_is_taken_trains(use_resource):
    def build():
        (a, b), flag = losses()
        train = tf.cond(
            flag,
            lambda: tf.group(sgd().minimize(a[0], var_list=a[1])),
            lambda: tf.group(sgd().minimize(b[0], var_list=b[1])),
        )
        with tf.control_dependencies([train]):
            tf.group(tf.assign_add(count("n", use_resource), 1), name="train")

    def feed(a, b, flag):
        return {"x:0": X, "a_factor:0": a, "b_factor:0": b, "flag:0": flag}

    found, report = steps(
        build,
        [feed(1, 1, True), feed(np.inf, 1, True), feed(1, 1, False), feed(1, np.inf, False)],
    )
    assert found == ["an", "", "bn", ""] and failed(report) == []


@RESOURCES
def test_a_step_in_a_branch_needs_no_flag_outside(use_resource):
    """Nothing outside its branch goes by it."""

    def build():
        (a, b), flag = losses()
        steps = count("global_step", use_resource)
        train = sgd().minimize(a[0], var_list=a[1], global_step=steps)
        tf.group(train, taken_in_a_branch(sgd(), *b, flag), name="train")

    assert failed(graphmp.convert(built(build)).report) == []


@pytest.mark.skipif(not TF2, reason="functions of TensorFlow 1.15 have no losses of their own here")
def test_a_step_inside_a_function_goes_by_its_own_flag():
    def build():
        with tf.variable_scope("", use_resource=True):
            (a, b), flag = losses()
        train = sgd().minimize(a[0], var_list=a[1])
        with tf.control_dependencies([train]):
            other = taken_in_a_branch(sgd(), *b, flag)
        with tf.control_dependencies([train, other]):
            tf.group(tf.assign_add(count("n", True), 1), name="train")
        tf.get_default_graph().clear_collection("train_op")

    with control_flow(functions=True):
        meta_graph = built(build)
    report = graphmp.convert(meta_graph).report
    assert failed(report) == []
    (row,) = report["warnings"]
    assert row["code"] == "GMP112" and "a step here and to one inside a function" in row["message"]


def all_finite(gradients):
    return tf.reduce_all([tf.reduce_all(tf.is_finite(gradient)) for gradient, _ in gradients])


def in_the_other_branch(gradients, optimizer, bad, good):
    return tf.cond(
        all_finite(gradients),
        lambda: tf.group(optimizer.apply_gradients(gradients), tf.assign_add(good, 1)),
        lambda: tf.group(tf.assign_add(bad, 1)),
    )


def by_the_norm(gradients, optimizer, bad, good):
    return tf.cond(
        tf.global_norm([gradient for gradient, _ in gradients]) < 1e6,
        lambda: tf.group(optimizer.apply_gradients(gradients), tf.assign_add(good, 1)),
        lambda: tf.group(tf.assign_add(bad, 1)),
    )


def in_a_branch_beside(gradients, optimizer, bad, good):
    counted = tf.cond(
        all_finite(gradients), lambda: tf.no_op(), lambda: tf.group(tf.assign_add(bad, 1))
    )
    return tf.group(optimizer.apply_gradients(gradients, good), counted)


def by_a_number(gradients, optimizer, bad, good):
    more = tf.cast(tf.logical_not(all_finite(gradients)), tf.int32)
    return tf.group(optimizer.apply_gradients(gradients, good), tf.assign_add(bad, more))


def by_a_number_behind(gradients, optimizer, bad, good):
    more = tf.cast(tf.logical_not(all_finite(gradients)), tf.int32)
    with tf.control_dependencies([optimizer.apply_gradients(gradients, good)]):
        return tf.group(tf.assign_add(bad, more))


@RESOURCES
@pytest.mark.parametrize(
    "handled",
    [in_the_other_branch, by_the_norm, in_a_branch_beside, by_a_number, by_a_number_behind],
)
def test_the_models_own_handling_of_bad_gradients_happens_and_is_said(handled, use_resource):
    def build():
        optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
        factor = tf.placeholder(tf.float32, (), "factor")
        gradients = optimizer.compute_gradients(factor * square(net(vectors())))
        bad, good = count("bad", use_resource), count("good", use_resource)
        tf.group(handled(gradients, optimizer, bad, good), name="train")

    found, report = steps(build, [{"x:0": X, "factor:0": factor} for factor in (1, np.inf, 1)])
    assert found == ["goodnet", "bad", "goodnet"] and failed(report) == []
    (row,) = report["warnings"]
    assert row["code"] == "GMP112" and "handles gradients that are not finite" in row["message"]
    (loss,) = report["losses"]
    assert [each["node"] for each in loss["not_skipped"]] == [row["node"]]


@RESOURCES
def test_a_share_of_bad_steps_behind_the_updates_is_their_handling(use_resource):
    def build():
        optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
        factor = tf.placeholder(tf.float32, (), "factor")
        gradients = optimizer.compute_gradients(factor * square(net(vectors())))
        share = tf.get_variable(
            "share", (), initializer=tf.zeros_initializer(), use_resource=use_resource
        )
        is_bad = tf.cast(tf.logical_not(all_finite(gradients)), tf.float32)
        with tf.control_dependencies([optimizer.apply_gradients(gradients)]):
            tf.group(tf.assign(share, 0.9 * share + 0.1 * is_bad), name="train")

    found, report = steps(build, [{"x:0": X, "factor:0": factor} for factor in (1, np.inf, 1)])
    assert found == ["net", "share", "netshare"] and failed(report) == []


@RESOURCES
def test_what_an_optimizer_counts_in_a_branch_is_not_made_of_what_chooses_the_branch(use_resource):
    """The powers of Adam's decay take no value of the batch, as a sum of learning rates does."""

    def build():
        rate = tf.placeholder(tf.float32, (), "rate")
        optimizer = tf.train.AdamOptimizer(rate)
        total = tf.get_variable(
            "total", (), initializer=tf.zeros_initializer(), use_resource=use_resource
        )
        factor = tf.placeholder(tf.float32, (), "factor")
        gradients = optimizer.compute_gradients(
            factor * square(net(vectors())), tf.trainable_variables("net")
        )
        applied = tf.cond(
            all_finite(gradients),
            lambda: tf.group(optimizer.apply_gradients(gradients)),
            lambda: tf.no_op(),
        )
        tf.group(applied, tf.assign_add(total, rate), name="train")

    feeds = [{"x:0": X, "rate:0": 0.1, "factor:0": factor} for factor in (1, np.inf, 1)]
    found, report = steps(build, feeds)
    assert found == ["condnettotal", "", "condnettotal"]  # the powers lie in the conditional
    assert failed(report) == []
    (loss,) = report["losses"]
    assert loss["not_skipped"] == []


@RESOURCES
def test_what_counts_large_gradients_beside_an_update_is_skipped_with_it(use_resource):
    def build():
        gradients = sgd().compute_gradients(
            tf.placeholder(tf.float32, (), "factor") * square(net(vectors()))
        )
        large = tf.global_norm([gradient for gradient, _ in gradients]) > 1e-9
        big = count("big", use_resource)
        counted = tf.cond(large, lambda: tf.group(tf.assign_add(big, 1)), lambda: tf.no_op())
        tf.group(sgd().apply_gradients(gradients), counted, name="train")

    found, report = steps(build, [{"x:0": X, "factor:0": factor} for factor in (1, np.inf)])
    assert found == ["bignet", ""] and failed(report) == [] and report["warnings"] == []


@RESOURCES
@pytest.mark.parametrize("side", [True, False])
def test_the_other_branch_of_an_update_is_not_skipped_with_it(use_resource, side):
    """Gradients are taken outside, and overflow where the branch isn't taken."""

    def build():
        x, flag = vectors(), tf.placeholder(tf.bool, (), "flag")
        loss = tf.placeholder(tf.float32, (), "factor") * square(net(x))
        gradients, idle = sgd().compute_gradients(loss), count("idle", use_resource)
        branches = [
            lambda: tf.group(sgd().apply_gradients(gradients)),
            lambda: tf.group(tf.assign_add(idle, 1)),
        ]
        tf.group(tf.cond(flag, *(branches if side else branches[::-1])), name="train")

    found, report = steps(
        build,
        [
            {"x:0": X, "factor:0": factor, "flag:0": flag}
            for factor in (1, np.inf)
            for flag in (side, not side)
        ],
    )
    assert found == ["net", "idle", "", "idle"] and failed(report) == []
