"""Sums of gradients that a write begins anew: a skipped step doesn't leave an applied sum there."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.scaling.plan.begun_sums import BegunSums
from graphmp.verify import verify
from tests.support.executed import verdicts
from tests.support.scaled import session

GOOD, BAD = 1.0, np.inf  # what is fed: the gradient


def held(name, shape=(4, 4), dtype=tf.float32):
    return tf.get_variable(name, shape, dtype, tf.zeros_initializer(), trainable=False)


def model(save, applied):
    """A run that trains nothing, and one that applies what the other one left."""
    x = tf.placeholder(tf.float32, [4, 4], "x")
    w = tf.get_variable("w", [4, 4], initializer=tf.zeros_initializer())
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    ((g, _),) = optimizer.compute_gradients(tf.reduce_sum(tf.matmul(x, w)) / 4.0, [w])
    tf.identity(w, "weights")
    saved = save(g, w)
    if saved is not False:
        tf.group(saved, name="save")
    tf.group(optimizer.apply_gradients([(applied(g), w)]), name="train")
    tf.global_variables_initializer()


def value(name):
    with tf.variable_scope("", reuse=True):
        return tf.get_variable(name, dtype=tf.bool if name == "busy" else tf.float32).read_value()


def assigned():
    model(lambda g, w: held("sum").assign(g), lambda g: value("sum") + g)


def assigned_by_the_op_that_runs():
    """Nothing waits for the write."""
    model(lambda g, w: held("sum").assign(g, name="save") is None, lambda g: value("sum") + g)


def scaled_and_clipped():
    model(
        lambda g, w: held("sum").assign(tf.clip_by_norm(g / 2.0, 1e6) * 2.0),
        lambda g: tf.clip_by_global_norm([(value("sum") + g) / 1.0], 1e6)[0][0],
    )


def in_a_branch():
    def save(g, w):
        total, busy = held("sum"), held("busy", (), tf.bool)
        return tf.cond(busy, lambda: total.assign_add(g), lambda: total.assign(g))

    model(save, lambda g: value("sum") + g)


def flat():
    def save(g, w):
        return held("sum", (32,)).assign(tf.concat([tf.reshape(g, [-1]), tf.reshape(g, [-1])], 0))

    model(save, lambda g: tf.reshape(tf.split(value("sum"), 2)[1], [4, 4]) + g)


def rows():
    model(
        lambda g, w: tf.scatter_update(held("sum", (2, 4, 4)), [1], g[None]),
        lambda g: tf.reduce_sum(value("sum"), 0) + g,
    )


def one_run_with_branches():
    """What is run first takes both branches by a placeholder."""
    x, first = tf.placeholder(tf.float32, [4, 4], "x"), tf.placeholder(tf.bool, (), "first")
    w, total = tf.get_variable("w", [4, 4], initializer=tf.zeros_initializer()), held("sum")
    tf.identity(w, "weights")
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    ((g, _),) = optimizer.compute_gradients(tf.reduce_sum(tf.matmul(x, w)) / 4.0, [w])
    added = tf.cond(first, lambda: total.assign(g), lambda: total.assign_add(g))
    with tf.control_dependencies([added]):
        tf.group(
            tf.cond(
                first,
                tf.no_op,
                lambda: optimizer.apply_gradients([(total.read_value(), w)]),
            ),
            name="train",
        )
    tf.global_variables_initializer()


BEGUN = [
    assigned,
    assigned_by_the_op_that_runs,
    scaled_and_clipped,
    in_a_branch,
    flat,
    rows,
    one_run_with_branches,
]


def saved_with_the_update():
    """The step is skipped as a whole: the next one needs the gradient of the last that trained."""
    model(lambda g, w: [held("sum"), False][1], lambda g: value("sum") + g)
    graph = tf.get_default_graph()
    train = graph.get_operation_by_name("train")
    with tf.control_dependencies([train]), tf.variable_scope("", reuse=True):
        saved = tf.get_variable("sum").assign(graph.get_tensor_by_name(GRADIENT))
    tf.group(saved, name="both")


def weights_of_an_inner_step():
    """Zeros would be no weights."""
    model(lambda g, w: held("sum").assign(w - 0.1 * g), lambda g: g + value("w") - value("sum"))


def trained_elsewhere():
    """No update takes it."""
    model(lambda g, w: held("sum").assign(g), lambda g: g * tf.reduce_sum(tf.square(value("sum"))))


def added():
    """A sum that is written as it was is none that begins."""
    model(lambda g, w: held("sum").assign(value("sum") + g), lambda g: value("sum") + g)


GRADIENT = "gradients/MatMul_grad/tuple/control_dependency_1:0"
NOT_BEGUN = [saved_with_the_update, weights_of_an_inner_step, trained_elsewhere, added]


def graphs(build, use_resource=False):
    """The graph of a model, and its conversion."""
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        build()
        original = tf.train.export_meta_graph()
    config = Config.make(loss_scale_initial=64.0)
    return original, rewrite(original, config, Policy.default("float16"))


@pytest.mark.parametrize("use_resource", [False, True], ids=["references", "resources"])
@pytest.mark.parametrize("build", BEGUN, ids=lambda build: build.__name__)
def test_a_skipped_beginning_leaves_no_sum_that_was_applied(build, use_resource):
    original, made = graphs(build, use_resource)
    in_one_run = build is one_run_with_branches
    with session(made.meta_graph) as sess:

        def change(first, second):
            before = sess.run("weights:0")
            for place, fed in enumerate((first, second)):
                feeds = {"x:0": np.full((4, 4), fed)}
                feeds.update({"first:0": not place} if in_one_run else {})
                sess.run("train" if place or in_one_run else "save", feeds)
            return (sess.run("weights:0") - before)[0, 0]

        assert [change(GOOD, GOOD), change(BAD, GOOD), change(GOOD, GOOD)] == [-2.0, -1.0, -2.0]
    assert verify(original, made.meta_graph).ok


def test_run_skipped_steps_may_write_these_zeros():
    original, made = graphs(in_a_branch)
    verdict, texts = verdicts(original, made.meta_graph, {"losses": made.record.losses})
    assert verdict["skips when run"] == "proved", texts


@pytest.mark.unit
@pytest.mark.parametrize("build", NOT_BEGUN, ids=lambda build: build.__name__)
def test_other_writes_keep_the_old_value(build, monkeypatch):
    """The proof finds those that don't."""
    original, made = graphs(build)
    assert verify(original, made.meta_graph).ok
    assert not any(row["why"].startswith("it begins") for row in not_skipped(made))
    choose = BegunSums.__init__

    def all_of_them(self, graph, losses, ends):
        choose(self, graph, losses, ends)
        self.begun = [name for loss in losses for name in loss.held]

    monkeypatch.setattr(BegunSums, "__init__", all_of_them)
    assert not verify(*graphs(build)[:1], graphs(build)[1].meta_graph).ok


def not_skipped(made):
    return [row for loss in made.record.losses for row in loss["not_skipped"]]


@pytest.mark.unit
def test_a_write_that_may_begin_a_sum_is_told():
    def either():
        def save(g, w):
            total, first = held("sum"), tf.placeholder(tf.bool, (), "first")
            return total.assign(tf.cond(first, lambda: g, lambda: total + g))

        model(save, lambda g: value("sum") + g)

    original, made = graphs(either)
    (warning,) = [each for each in made.record.warnings if each["code"] == "GMP112"]
    assert "it may begin a sum of gradients or add to it" in warning["message"]
    assert verify(original, made.meta_graph).ok
