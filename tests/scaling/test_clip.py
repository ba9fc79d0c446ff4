"""Clipping by global norm in built graphs."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.structure.view import GraphView
from graphmp.loss_scale.gradients import clip, values
from tests.support.loss_scaling import FEED
from tests.support.models import IDS, two_layers
from tests.support.painting import built
from tests.support.scaled import BAD, OWN, changed, session, shaped, trained
from tests.support.scaled import built as with_optimizer
from tests.support.training import state
from tests.support.training_graphs import net, sgd, square, vectors


def norm_after(meta_graph, start, feed):
    """The global norm of one step's change by gradient descent, divided by the rate of 0.01."""
    before, after = trained(meta_graph, steps=1, start=start, feed=feed, as_written=True)
    return np.sqrt(
        sum(
            np.sum(np.square((before[n] - after[n]) / 0.01))
            for n in before
            if not n.startswith("graphmp/") and n != "global_step"
        )
    )


def clipped_by(norm, sparse):
    """A net whose gradients the user clips, or doesn't.

    One look-up reads a row twice; its values are clipped separately.
    """
    x = vectors()
    if sparse:
        x = tf.concat(
            [
                x,
                tf.reshape(
                    tf.nn.embedding_lookup(tf.get_variable("table", [20, 8]), IDS), [-1, 32]
                ),
            ],
            1,
        )
    gradients, variables = zip(*sgd().compute_gradients(100 * square(two_layers(x))))
    if norm:
        gradients, _ = tf.clip_by_global_norm(gradients, norm)
    sgd().apply_gradients(zip(gradients, variables), name="train")
    tf.global_variables_initializer()


@functools.lru_cache(maxsize=None)
def clipped_or_not(sparse):
    """An unclipped graph, a clipped one, initial values, and the norm of each from there."""
    meta_graph, by_user = (
        built(lambda: clipped_by(0, sparse)),
        built(lambda: clipped_by(1.5, sparse)),
    )
    start, _ = trained(meta_graph, steps=0)
    return (
        meta_graph,
        by_user,
        start,
        norm_after(meta_graph, start, FEED),
        norm_after(by_user, start, FEED),
    )


@pytest.mark.parametrize("loss_scale", ["none", 128.0, "dynamic"])
@pytest.mark.parametrize("sparse", [False, True])
def test_clip_norm_is_what_float32_gives(sparse, loss_scale):
    meta_graph, by_user, start, unclipped, expected = clipped_or_not(sparse)
    assert unclipped > 5 * expected and (sparse or abs(expected - 1.5) < 1e-3)
    for dtype, rtol in (("float32", 1e-3), ("float16", 1e-2)):
        converted = graphmp.convert(
            meta_graph, loss_scale=loss_scale, clip_norm=1.5, compute_dtype=dtype
        )
        np.testing.assert_allclose(
            norm_after(converted.meta_graph, start, FEED), expected, rtol=rtol
        )
        converted = graphmp.convert(by_user, loss_scale=loss_scale, compute_dtype=dtype)
        np.testing.assert_allclose(
            norm_after(converted.meta_graph, start, FEED), expected, rtol=rtol
        )


def test_gradients_below_the_norm_are_not_clipped():
    """Though they are above it while they are scaled."""
    meta_graph, _, start, unclipped, _ = clipped_or_not(False)
    converted = graphmp.convert(meta_graph, loss_scale=128.0, clip_norm=2 * unclipped)
    np.testing.assert_allclose(norm_after(converted.meta_graph, start, FEED), unclipped, rtol=1e-2)


def test_the_clip_of_towers_takes_their_averages():
    meta_graph = built(lambda: shaped_with_sgd_towers())
    start, _ = trained(meta_graph, steps=0)
    assert norm_after(meta_graph, start, FEED) > 0.1
    converted = graphmp.convert(meta_graph, clip_norm=0.05, compute_dtype="float32")
    assert converted.report["warnings"] == []
    np.testing.assert_allclose(norm_after(converted.meta_graph, start, FEED), 0.05, rtol=1e-3)


def shaped_with_sgd_towers():
    gradients = []
    for number, x in enumerate(tf.split(vectors(), 2)):
        with tf.name_scope("tower_%d" % number):
            gradients.append(sgd().compute_gradients(square(net(x, reuse=bool(number)))))
    pairs = [
        (tf.reduce_mean(tf.stack([g for g, _ in of_one]), 0), of_one[0][1])
        for of_one in zip(*gradients)
    ]
    sgd().apply_gradients(pairs, name="train")
    tf.global_variables_initializer()


def test_the_finite_check_comes_before_the_clip():
    """One infinite gradient would make all of them NaN, and a clip by value would make it 1."""
    for graph in (with_optimizer("Adam", False, False), shaped("clipped_by_the_user")):
        converted = graphmp.convert(graph, loss_scale_initial=64.0, clip_norm=1.0)
        nodes = {node.name: node for node in converted.meta_graph.graph_def.node}
        before = GraphView(converted.meta_graph.graph_def).ancestors(
            ["graphmp/loss_scale/all_finite"]
        )
        assert not any("clip_by" in name for name in before) and any(
            "clip_by_global_norm" in name for name in nodes
        )
    with session(
        graphmp.convert(
            with_optimizer("Adam", False, False), loss_scale_initial=64.0, clip_norm=1.0
        ).meta_graph
    ) as sess:
        before = state(sess)
        sess.run("train", BAD)
        assert changed(before, state(sess)) == OWN[1:]


def test_gradient_code_of_another_loss_reads_what_is_not_clipped_yet():
    """The gradients of the second loss are computed with one of the first."""

    def build():
        tf.set_random_seed(1)
        x, factor = vectors(), tf.placeholder(tf.float32, (), "factor")
        v, w = tf.get_variable("v", (12, 1)), tf.get_variable("w", (12, 1))
        first, second = (tf.train.GradientDescentOptimizer(rate) for rate in (1e-3, 1.0))
        gradient = tf.gradients(square(tf.matmul(x, v)) * factor, v)[0]
        target = tf.reduce_mean(tf.stop_gradient(gradient))
        train = first.apply_gradients([(gradient, v)])
        tf.group(
            train,
            second.minimize(square(tf.matmul(x, w) - target, "other"), var_list=[w]),
            name="train",
        )
        tf.global_variables_initializer()

    meta_graph = built(build)
    feed = {"x:0": FEED["x:0"], "factor:0": 1e3}
    start, plain = trained(meta_graph, steps=1, feed=feed, as_written=True)
    converted = graphmp.convert(meta_graph, compute_dtype="float32", clip_norm=0.5).meta_graph
    after = trained(converted, steps=1, start=start, feed=feed, as_written=True)[1]
    unclipped, clipped = plain["w"] - start["w"], after["w"] - start["w"]
    assert np.linalg.norm(unclipped) > 1.0 and abs(np.linalg.norm(clipped) - 0.5) < 1e-4
    np.testing.assert_allclose(
        clipped / 0.5, unclipped / np.linalg.norm(unclipped), rtol=1e-4, atol=1e-6
    )


@pytest.mark.unit
def test_each_loss_is_clipped_by_itself():
    meta_graph = tf.train.export_meta_graph(graph=shaped("one_loss_with_two_optimizers"))
    clips = {loss["clip"] for loss in graphmp.convert(meta_graph, clip_norm=1.0).report["losses"]}
    assert clips == {
        "graphmp/loss_scale/clip_by_global_norm",
        "graphmp/loss_scale_1/clip_by_global_norm",
    }


def test_the_users_own_clip_sees_unscaled_gradients():
    graph = shaped("clipped_by_the_user")
    start, expected = trained(tf.train.export_meta_graph(graph=graph), feed=FEED)
    converted = graphmp.convert(graph, compute_dtype="float32", loss_scale=2.0**10)
    assert changed(expected, trained(converted.meta_graph, start=start, feed=FEED)[1]) == []


def of_two_dtypes(use_resource):
    """A float32 matmul, a float64 one, and a look-up in a table of each."""
    x = vectors()
    with tf.variable_scope("", use_resource=use_resource):
        total = tf.constant(0.0)
        for dtype in (tf.float32, tf.float64):
            table = tf.get_variable("table_" + dtype.name, [20, 8], dtype)
            inputs = tf.concat(
                [tf.cast(x, dtype), tf.reshape(tf.nn.embedding_lookup(table, IDS), [-1, 32])], 1
            )
            total += 100 * tf.cast(
                square(tf.matmul(inputs, tf.get_variable("kernel_" + dtype.name, [44, 1], dtype))),
                tf.float32,
            )
    sgd().minimize(total, name="train")
    tf.global_variables_initializer()


@pytest.mark.parametrize("loss_scale", ["none", 128.0, "dynamic"])
@pytest.mark.parametrize("use_resource", [False, True])
def test_gradients_of_two_dtypes_have_one_norm(use_resource, loss_scale):
    """Both are scaled by the same factor."""
    meta_graph = built(lambda: of_two_dtypes(use_resource))
    start, plain = trained(meta_graph, steps=1, feed=FEED, as_written=True)
    converted = graphmp.convert(
        meta_graph, loss_scale=loss_scale, clip_norm=1.5, compute_dtype="float32"
    )
    _, after = trained(converted.meta_graph, steps=1, start=start, feed=FEED, as_written=True)
    steps = [
        (plain[name] - start[name], after[name] - start[name])
        for name in start
        if not name.startswith("graphmp/")
    ]
    share = np.linalg.norm(steps[0][1]) / np.linalg.norm(steps[0][0])
    assert len(steps) == 4 and share < 0.5
    for whole, part in steps:
        np.testing.assert_allclose(part, whole * share, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("norm", [0.5, 1e3])
@pytest.mark.parametrize("dtypes", [(tf.float32,), (tf.float64,), (tf.float32, tf.float64)])
def test_the_clip_gives_what_tensorflows_does(dtypes, norm):
    """In each dtype; sparse gradients stay sparse and None stays None."""
    random = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session() as sess:
        dense = [random.normal(size=(3, 2)) for _ in dtypes]
        given = [None, *[tf.constant(g, dtype) for g, dtype in zip(dense, dtypes)]]
        given += [
            tf.IndexedSlices(tf.constant(g, dtype), tf.constant([1, 1, 0]))
            for g, dtype in zip(dense, dtypes)
        ]
        expected, _ = tf.clip_by_global_norm(
            [g if g is None else _as_float64(g) for g in given], norm
        )
        found = clip(given, norm, "here")
        assert found[0] is None and [type(g) for g in found] == [type(g) for g in given]
        assert [g.dtype for g in found[1:]] == [g.dtype for g in given[1:]]
        for a, b in zip(
            sess.run([values(g) for g in found[1:]]), sess.run([values(g) for g in expected[1:]])
        ):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def _as_float64(gradient):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(gradient.values, tf.float64), gradient.indices)
    return tf.cast(gradient, tf.float64)


@pytest.mark.unit
def test_every_gradient_is_unscaled_and_checked_before_the_clip():
    converted = graphmp.convert(with_optimizer("Adam", True, False), clip_norm=1.0)
    found = {node.name: node for node in converted.meta_graph.graph_def.node}
    checked = GraphView(converted.meta_graph.graph_def).ancestors(["graphmp/loss_scale/all_finite"])
    squared = {node.input[0] for node in found.values() if node.op == "L2Loss"}
    (loss,) = converted.report["losses"]
    assert len(loss["unscale"]) == 5 and set(loss["unscale"]) <= checked
    assert {name for name in squared if "/clip" not in name} == set(loss["unscale"])
    assert {found[name].op for name in loss["unscale"]} == {"RealDiv"}
