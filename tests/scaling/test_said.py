"""Warnings about losses that can't be scaled as usual, and about writes that depend on others."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.control_flow import control_flow
from tests.support.painting import built, nodes
from tests.support.structure import needs_tf2
from tests.support.training_graphs import SHAPES, net, sgd, square, vectors
from tests.support.warned import said

pytestmark = pytest.mark.unit


def test_each_losss_row_lists_the_writes_that_are_skipped_with_it():
    converted = graphmp.convert(built(SHAPES["gan_in_turn"].build))
    discriminator, generator = converted.report["losses"]
    both = {name for name in discriminator["gated"] if not name.startswith("D/")}
    assert both == {"G/Adam"}  # the global step, counted behind both
    assert all(name.startswith("G/") for name in generator["gated"])
    found = nodes(converted.meta_graph)
    (flag,) = [
        found[node.input[1]] for name, node in found.items() if name.endswith("/skip/G/Adam/switch")
    ]
    assert flag.op == "LogicalOr" and sorted(flag.input) == [
        "graphmp/loss_scale/finite",
        "graphmp/loss_scale_1/finite",
    ]


def test_towers_that_are_clipped_apart_are_said():
    """The gradients reach no update kernel, whose input would be their average."""

    def build():
        gradients = []
        for number, x in enumerate(tf.split(vectors(), 2)):
            with tf.name_scope("tower_%d" % number):
                gradients.append(
                    tf.gradients(square(net(x, reuse=bool(number))), tf.trainable_variables())
                )
        tf.group(
            *[
                v.assign_sub(0.01 * (a + b))
                for v, a, b in zip(tf.trainable_variables(), *gradients)
            ],
            name="train",
        )

    converted = graphmp.convert(built(build), clip_norm=1.0)
    (row,) = (row for row in converted.report["warnings"] if row["code"] == "GMP103")
    assert "tower_0/gradients, tower_1/gradients" in str(row)
    norms = [name for name in nodes(converted.meta_graph) if name.endswith("/global_norm")]
    assert len(norms) == 2  # one of each tower


def test_gradients_of_turns_that_reach_no_update_kernel_are_said_to_be_unclipped():
    def build():
        x, w = vectors(), tf.get_variable("w", (12, 12))

        def body(turn, total):
            return turn + 1, total + tf.gradients(square(tf.matmul(x, w)), w)[0]

        _, total = tf.while_loop(lambda i, _: i < 2, body, [0, tf.zeros((12, 12))])
        w.assign_sub(0.01 * total, name="train")

    (row,) = said(built(build), "GMP103", clip_norm=1.0)
    assert row["node"] == "graphmp/loss_scale" and "is not clipped" in str(row)


@needs_tf2
def test_only_a_function_that_takes_gradients_and_writes_trains():
    def build():
        w = tf.get_variable("w", (12, 1), use_resource=True)

        def gradient(x):
            return tf.gradients(square(tf.matmul(x, w)), w)[0]

        @tf.function
        def takes_gradients(x):
            return gradient(x)

        @tf.function
        def writes(x):
            w.assign_add(x[:, :1] * 0 + 1.0)

        @tf.function
        def trains(x):
            w.assign_sub(0.1 * gradient(x))

        x = vectors(12)
        tf.identity(takes_gradients(x), name="shown")
        writes(x)
        trains(x)

    converted = graphmp.convert(built(build))
    (row,) = converted.report["losses"]
    assert row["gradient_scope"].startswith("library/__inference_trains")
    (warning,) = converted.report["warnings"]
    assert warning["node"].startswith("library/__inference_takes_gradients")
    assert "no update takes" in warning["message"]


def test_what_names_alone_call_gradient_code(graph):
    x = tf.placeholder(tf.float32, [4, 4], "x")
    hidden = tf.tanh(tf.matmul(x, tf.get_variable("w", [4, 4])), name="hidden")
    with tf.name_scope("hidden_grad"):
        edges = tf.sin(x)
    loss = tf.reduce_mean(tf.matmul(hidden, edges))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    meta_graph = tf.train.export_meta_graph(graph=graph)
    [row] = [
        row for row in graphmp.convert(meta_graph).report["warnings"] if row["code"] == "GMP113"
    ]
    assert row["node"] == "hidden_grad/Sin" and "--gradient_scope=SCOPE" in row["message"]
    for sure in (graphmp.convert(meta_graph, gradient_scope=["gradients"]), graphmp.convert(graph)):
        assert sure.report["warnings"] == [] and [
            loss["gradient_scope"] for loss in sure.report["losses"]
        ] == ["gradients"]


def trained_net():
    """A trained net: its input, its loss and its first weights."""
    x = vectors(12)
    loss = square(net(x))
    sgd().minimize(loss, name="train")
    return x, loss, tf.trainable_variables()[0]


def fetched(x, loss, w):
    tf.identity(tf.gradients(loss, w)[0], name="result")


def by_the_input(x, loss, w):
    tf.gradients(loss, x)


def in_a_statistic(x, loss, w):
    tf.summary.scalar("norm", tf.norm(tf.gradients(loss, w)[0]))


def times_a_vector(x, loss, w):
    """Both calls, of which the second differentiates the first."""
    tf.gradients(tf.reduce_sum(tf.gradients(loss, w)[0]), w)


def for_each_example(x, loss, w):
    def gradient(row):
        return tf.gradients(square(tf.matmul(row[None], w)), w)[0]

    tf.identity(tf.map_fn(gradient, x, dtype=tf.float32), name="result")


def beside(idle):
    def build():
        idle(*trained_net())

    return build


@pytest.mark.parametrize(
    "idle, calls",
    [
        (fetched, "1 such call"),
        (by_the_input, "1 such call"),
        (in_a_statistic, "1 such call"),
        (times_a_vector, "2 such calls"),
        (for_each_example, "1 such call"),
    ],
)
def test_gradients_that_train_nothing_are_said_to_be_unscaled(idle, calls):
    meta_graph = built(beside(idle))
    (row,) = said(meta_graph, "GMP110", loss_scale=64.0)
    assert "are taken from here (%s)" % calls in row["message"]
    assert said(meta_graph, "GMP110", compute_dtype="bfloat16", loss_scale=64.0) == []
    assert said(meta_graph, "GMP110", loss_scale="none", clip_norm=1.0) == []
    rule = row["message"].split("'")[1]
    assert said(meta_graph, "GMP110", keep_float32=[rule]) == []


def statistics(x, functions):
    """A trained net, whose updates go by the squares of gradients of a second loss, as in K-FAC."""
    hidden = tf.matmul(x, tf.get_variable("w", (12, 12)))
    kept, rate = (
        tf.get_variable(name, (), initializer=tf.ones_initializer(), trainable=False)
        for name in ("kept", "rate")
    )

    def sizes(hidden):
        return tf.reduce_mean(tf.square(tf.gradients(square(tf.matmul(hidden, hidden)), hidden)[0]))

    size = tf.map_fn(sizes, hidden[None]) if functions else sizes(hidden)
    with tf.control_dependencies([tf.assign_add(kept, tf.reduce_sum(size), name="keep")]):
        to_rate = tf.assign(rate, 0.01 / tf.identity(kept))
    with tf.control_dependencies([to_rate]):
        step = tf.train.GradientDescentOptimizer(tf.identity(rate))
    step.minimize(square(hidden), name="train")


@pytest.mark.parametrize("functions", [False, True])
def test_gradients_that_only_a_statistic_takes_are_said_to_be_in_no_update(functions):
    """What is made of them trains all the same."""

    def build():
        statistics(tf.placeholder(tf.float32, (12, 12), "x"), functions)

    with control_flow(functions=functions):
        meta_graph = built(build)
    (row,) = said(meta_graph, "GMP110", loss_scale=64.0)
    assert row["message"].startswith(
        "no update takes gradients that are taken from here, but keep writes what is made of them"
        " (1 such call): no scale keeps those below 6e-8"
    )
    assert row["node"].startswith("library/") is functions


def test_gradients_that_a_function_takes_and_that_train_nothing_are_said():
    with control_flow(functions=True):
        meta_graph = built(beside(for_each_example))
    (row,) = said(meta_graph, "GMP110")
    assert row["node"].startswith("library/") and "--compute_dtype=bfloat16" in row["message"]


def test_no_rule_is_advised_that_is_longer_than_is_accepted():
    def calls(x, loss, w):
        for letter in "abc":
            tf.gradients(loss, x, name=letter * 8000)

    (row,) = said(built(beside(calls)), "GMP110")
    assert "--compute_dtype=bfloat16" in row["message"] and len(row["message"]) < 500


def test_gradients_inside_a_loss_and_in_float32_are_not_said_to_be_unscaled():
    def penalised():
        x = vectors(12)
        output = net(x)
        slope = tf.norm(tf.gradients(output, x)[0], axis=1)
        tf.summary.scalar("slope", tf.reduce_mean(slope))
        sgd().minimize(square(output) + square(slope - 1.0), name="train")

    def float32(x, loss, w):
        tf.gradients(tf.reduce_sum(tf.exp(w)), w)

    for build in (penalised, beside(float32)):
        assert said(built(build), "GMP110") == []


def test_an_update_beside_one_out_of_a_barrier_is_said_too():
    """A barrier's elements have keys: what comes out of it isn't followed."""

    def build():
        w, other = tf.get_variable("w", (12, 12)), tf.get_variable("other", (12,))
        (gradient,) = tf.gradients(square(tf.matmul(vectors(), w)), w)
        barrier = tf.raw_ops.Barrier(component_types=[tf.float32], shapes=[w.shape])
        keys, rows = tf.constant(["w"]), tf.expand_dims(gradient, 0)
        tf.raw_ops.BarrierInsertMany(handle=barrier, keys=keys, values=rows, component_index=0)
        taken = tf.raw_ops.BarrierTakeMany(
            handle=barrier, num_elements=1, component_types=[tf.float32]
        )
        held = tf.reshape(taken.values[0], (12, 12))
        given = tf.placeholder(tf.float32, (12,))
        sgd().apply_gradients([(held, w), (given, other)], name="train")

    rows = [row for row in said(built(build), "GMP110") if "ApplyGradient" in row["node"]]
    assert ["out of a queue (1 such updates)" in str(row) for row in rows] == [True, False]
    assert "--gradient_scope" not in str(rows[0])
    assert "no gradient code was found for it (1 such updates)" in str(rows[1])


def test_what_is_not_clipped_beside_other_gradients_is_said():
    """Of one loss's gradients some update at once, others when they come out of a queue."""

    def build():
        v, w = tf.get_variable("v", (12, 12)), tf.get_variable("w", (12, 12))
        of_v, of_w = tf.gradients(square(tf.matmul(tf.matmul(vectors(), v), w)), [v, w])
        queue = tf.FIFOQueue(9, [tf.float32], [w.shape])
        queue.enqueue([of_w])
        sgd().apply_gradients([(of_v, v)], name="train")
        sgd().apply_gradients([(queue.dequeue(), w)], name="late")

    assert said(built(build), "GMP110", clip_norm=1.0) == []
    (row,) = said(built(build), "GMP103", clip_norm=1.0)
    assert row["node"] == "late/update_w/ApplyGradientDescent" and "not clipped" in str(row)
    assert said(built(build), "GMP103") == []


def test_gradients_that_are_only_fetched_are_no_training():
    def build():
        fetched(None, square(net(vectors(12))), tf.trainable_variables()[0])

    report = graphmp.convert(built(build)).report
    assert [row["code"] for row in report["warnings"]] == ["GMP110"] and report["losses"] == []
