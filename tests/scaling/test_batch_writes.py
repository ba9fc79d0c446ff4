"""A step's writes of values from the batch happen together, or not at all.

Statistics and their count, codebooks, centres, priorities.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.painting import built
from tests.support.scaled import changed, session, trained
from tests.support.structure import of_op
from tests.support.training import state
from tests.support.training_graphs import adam, sgd, square
from tests.support.turns import in_turn

X = np.random.RandomState(0).uniform(0.5, 1.0, (6, 8)).astype(np.float32)
FEED = {"x:0": X, "ids:0": np.array([0, 1, 2, 1, 0, 3], np.int32), "factor:0": 1.0}
GRADIENTS_OVERFLOW = dict(FEED, **{"factor:0": np.inf})
VALUES_OVERFLOW = dict(FEED, **{"x:0": X * 1e5})  # of a matmul in float16; float32 has room


def inputs():
    x, ids = tf.placeholder(tf.float32, (None, 8), "x"), tf.placeholder(tf.int32, (None,), "ids")
    return x, ids, tf.placeholder_with_default(1.0, (), "factor")


def held(name, shape, dtype=tf.float32):
    return tf.get_variable(name, shape, dtype, tf.ones_initializer, trainable=False)


def moved(average, value, rate=0.1):
    """One step of a moving average."""
    return tf.assign_sub(average, (average - value) * rate)


def trained_on(hidden, factor, optimizer=adam):
    return optimizer().minimize(
        square(tf.layers.dense(hidden, 1)) * factor, tf.train.get_or_create_global_step()
    )


def statistics(hidden, ids):
    """Mean, sum and count."""
    mean, count, seen = held("mean", (8,)), held("count", (), tf.int64), held("seen", (10,))
    return [
        moved(mean, tf.reduce_mean(hidden, 0)),
        tf.assign_add(count, tf.shape(hidden, out_type=tf.int64)[0]),
        tf.scatter_add(seen, ids, 0 * hidden[:, 0] + 1),
    ]


def centres(hidden, ids):
    """Of center loss."""
    table = held("centres", (10, 8))
    rows = tf.gather(table, ids)
    return [tf.scatter_sub(table, ids, 0.5 * (rows - hidden))]


def priorities(hidden, ids):
    """Of a replay memory, with what was seen last."""
    table, last = held("priorities", (10,)), held("last", (10, 8))
    error = tf.reduce_mean(tf.square(hidden), 1)
    rows = tf.expand_dims(ids[:2], 1)
    return [
        tf.scatter_update(table, ids, error),
        tf.scatter_nd_update(last, rows, hidden[:2]),
        last[8:, :].assign(hidden[2:4]),
    ]


def codebook(hidden, ids):
    """A codebook's entries are moving sums divided by moving counts; they wait for both."""
    counts, sums, entries = held("counts", (10,)), held("sums", (10, 8)), held("codebook", (10, 8))
    here = tf.one_hot(ids, 10)
    updates = [
        moved(counts, tf.reduce_sum(here, 0)),
        moved(sums, tf.matmul(here, hidden, transpose_a=True)),
    ]
    with tf.control_dependencies(updates):
        return [
            *updates,
            tf.assign(entries, tf.identity(sums) / tf.expand_dims(tf.identity(counts) + 1e-5, 1)),
        ]


KINDS = (statistics, centres, priorities, codebook)


def grouped(kind):
    x, ids, factor = inputs()
    hidden = tf.layers.dense(x, 8)
    tf.group(trained_on(hidden, factor), *kind(hidden, ids), name="train")


def ahead(kind):
    x, ids, factor = inputs()
    hidden = tf.layers.dense(x, 8)
    with tf.control_dependencies(kind(hidden, ids)):
        tf.group(trained_on(hidden, factor), name="train")


def behind(kind):
    x, ids, factor = inputs()
    hidden = tf.layers.dense(x, 8)
    with tf.control_dependencies([trained_on(hidden, factor)]):
        tf.group(*kind(hidden, ids), name="train")


def part_of_it(kind):
    """One ahead of the gradients, the others grouped with the update."""
    x, ids, factor = inputs()
    hidden = tf.layers.dense(x, 8)
    first, *rest = kind(hidden, ids)
    with tf.control_dependencies([first]):
        train = trained_on(hidden, factor)
    tf.group(train, *rest, name="train")


def graph_of(place, kind, use_resource):
    def build():
        with tf.variable_scope("", use_resource=use_resource):
            place(kind)
        tf.global_variables_initializer()

    return built(build)


@functools.lru_cache(maxsize=None)
def converted(place, kind, use_resource):
    return graphmp.convert(graph_of(place, kind, use_resource), loss_scale_initial=64.0)


def own(names):
    return {name for name in names if not name.startswith("graphmp/")}


def taken(values):
    """The variables that are assigned values from the batch."""
    return {name for name in own(values) if not name.startswith(("dense", "global_step", "beta"))}


CASES = [
    (place, kind)
    for place in (grouped, ahead, behind, part_of_it)
    for kind in KINDS
    if (place, kind) != (part_of_it, centres)
]


@pytest.mark.parametrize("place, kind, use_resource", in_turn(CASES, [False, True]))
def test_all_are_written_or_none(place, kind, use_resource):
    result = converted(place, kind, use_resource)
    (loss,) = result.report["losses"]
    assert result.report["warnings"] == []
    with session(result.meta_graph) as sess:
        fresh = state(sess)
        sess.run("train", FEED)
        before = state(sess)
        batch = taken(before)
        assert own(changed(fresh, before)) == own(before)
        sess.run("train", VALUES_OVERFLOW)
        after = state(sess)
        assert own(changed(before, after)) == set() and all(
            np.isfinite(value).all() for value in after.values()
        )
        sess.run("train", GRADIENTS_OVERFLOW)
        last = state(sess)
        listed = {row["node"] for row in loss["not_skipped"]}
        assert own(changed(after, last)) == (batch if place in (ahead, part_of_it) else set())
        assert bool(listed) == (place in (ahead, part_of_it))
        sess.run("train", FEED)
        assert "dense/kernel" in changed(last, state(sess))


@pytest.mark.parametrize("place, kind, use_resource", in_turn(CASES, [True, False]))
def test_a_finite_step_writes_what_it_wrote(place, kind, use_resource):
    meta_graph = graph_of(place, kind, use_resource)
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    result = graphmp.convert(meta_graph, compute_dtype="float32")
    assert (
        changed(expected, trained(result.meta_graph, start=start, feed=FEED, as_written=True)[1])
        == []
    )


@pytest.mark.unit
@pytest.mark.parametrize("place", [grouped, ahead])
def test_the_page_and_the_checks_know_the_gates(place):
    meta_graph = graph_of(place, statistics, False)
    result = converted(place, statistics, False)
    diff = graphmp.diff(meta_graph, result.meta_graph)
    assert not [claim for claim in diff.claims if claim.verdict == "failed"]


def layers(use_resource, whole):
    """Two batch normalisations in sequence that write where they are computed.

    `whole`: each mean and variance.
    """

    def normalised(x, name):
        with tf.variable_scope(name):
            mean, variance = tf.nn.moments(x, [0])
            writes = [moved(held("mean", (8,)), mean), moved(held("variance", (8,)), variance)]
            with tf.control_dependencies(writes):
                return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            x, _, factor = inputs()
            for name in ("a", "b"):
                x = normalised(tf.layers.dense(x, 8), name)
            tf.group(trained_on(x, factor), name="train")
        tf.global_variables_initializer()

    return built(build)


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_statistics_that_the_next_layer_waits_for(use_resource):
    """One flag for all would wait for itself.

    The statistics of a layer are written together, and with those of earlier layers.
    """
    meta_graph = layers(use_resource, True)
    result = graphmp.convert(meta_graph, loss_scale_initial=64.0)
    with session(result.meta_graph) as sess:
        sess.run("train", FEED)
        before = state(sess)
        assert {name for name in before if name.startswith(("a/", "b/"))} == {
            "a/mean",
            "a/variance",
            "b/mean",
            "b/variance",
        }
        sess.run("train", VALUES_OVERFLOW)
        after = state(sess)
        assert own(changed(before, after)) == set()
        sess.run("train", GRADIENTS_OVERFLOW)
        assert own(changed(after, state(sess))) == {"a/mean", "a/variance", "b/mean", "b/variance"}
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    result = graphmp.convert(meta_graph, compute_dtype="float32")
    assert (
        changed(expected, trained(result.meta_graph, start=start, feed=FEED, as_written=True)[1])
        == []
    )


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_statistics_of_a_branch_wait_for_none_of_another(use_resource):
    """A count that is always written is written when the branch is not taken, too."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            x, _, factor = inputs()
            hidden, mean, count = tf.layers.dense(x, 8), held("mean", (8,)), held("count", ())
            write = tf.cond(
                tf.placeholder(tf.bool, (), "training"),
                lambda: tf.identity(moved(mean, tf.reduce_mean(hidden, 0))),
                lambda: tf.zeros((8,)),
            )
            with tf.control_dependencies([write, tf.assign_add(count, tf.reduce_sum(hidden))]):
                tf.group(trained_on(hidden, factor), name="train")
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build), loss_scale_initial=64.0).meta_graph) as sess:
        before = state(sess)
        sess.run("train", dict(FEED, **{"training:0": False}))
        apart = state(sess)
        assert own(changed(before, apart)) >= {"count", "dense/kernel"} and "mean" not in changed(
            before, apart
        )
        sess.run("train", dict(FEED, **{"training:0": True}))
        both = state(sess)
        assert set(changed(apart, both)) >= {"count", "mean"}
        sess.run("train", dict(VALUES_OVERFLOW, **{"training:0": True}))
        assert own(changed(both, state(sess))) == set()


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_what_can_be_run_apart_needs_nothing_further(use_resource):
    """Two steps, each with statistics and an input of its own, share a counter."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            tf.train.get_or_create_global_step()
            for name in ("A", "B"):
                with tf.variable_scope(name):
                    x = tf.placeholder(tf.float32, (None, 8), "x")
                    hidden = tf.layers.dense(x, 8)
                    with tf.control_dependencies(
                        [moved(held("mean", (8,)), tf.reduce_mean(hidden, 0))]
                    ):
                        train = sgd().minimize(
                            square(hidden),
                            tf.train.get_or_create_global_step(),
                            tf.trainable_variables(name + "/"),
                        )
                    tf.group(
                        train,
                        tf.assign_add(held("count", ()), tf.reduce_mean(hidden)),
                        name="train",
                    )
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build), loss_scale_initial=64.0).meta_graph) as sess:
        for name in ("A", "B"):
            before = state(sess)
            sess.run(name + "/train", {name + "/x:0": X})
            written = {"%s/%s" % (name, v) for v in ("count", "dense/bias", "dense/kernel", "mean")}
            assert own(changed(before, state(sess))) == {"global_step", *written}


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_a_count_of_runs_keeps_its_value_on_a_skipped_step(use_resource):
    """Fetching its result by name then returns the variable's value."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            x, _, factor = inputs()
            count = held("count", (), tf.int32)
            with tf.control_dependencies([trained_on(tf.layers.dense(x, 8), factor)]):
                counted = (
                    tf.raw_ops.ResourceCountUpTo(resource=count.handle, limit=9, T=tf.int32)
                    if use_resource
                    else count.count_up_to(9)
                )
            tf.identity(counted + 0, name="read")
            tf.add_to_collection("counted", counted)
        tf.global_variables_initializer()

    meta_graph = built(build)
    counted = meta_graph.collection_def["counted"].node_list.value[0]
    result = graphmp.convert(meta_graph, loss_scale_initial=64.0)
    (write,) = of_op(meta_graph, "CountUpTo", "ResourceCountUpTo")
    assert write.name in result.report["losses"][0]["gated"] and result.report["warnings"] == []
    assert not [
        claim
        for claim in graphmp.diff(meta_graph, result.meta_graph).claims
        if claim.verdict == "failed"
    ]
    with session(result.meta_graph) as sess:
        assert sess.run([counted, "read:0"], FEED) == [1, 1]
        before = state(sess)
        assert sess.run([counted, "read:0"], GRADIENTS_OVERFLOW) == [2, 2]
        assert own(changed(before, state(sess))) == set()
        assert sess.run([counted, "read:0"], FEED) == [2, 2] and state(sess)["count"] == 3


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_a_count_of_a_branch_keeps_its_value_on_a_skipped_step(use_resource):
    def build():
        with tf.variable_scope("", use_resource=use_resource):
            x, _, factor = inputs()
            count, w = held("count", (), tf.int32), held("w", (8, 4))
            loss = square(tf.matmul(x, w)) * factor

            def counted():
                if use_resource:
                    return tf.raw_ops.ResourceCountUpTo(resource=count.handle, limit=9, T=tf.int32)
                return count.count_up_to(9)

            with tf.control_dependencies([sgd().minimize(loss, var_list=[w])]):
                taken = tf.placeholder_with_default(True, ())
                tf.identity(tf.cond(taken, counted, lambda: -1), name="train")
        tf.global_variables_initializer()

    result = graphmp.convert(built(build), loss_scale_initial=64.0)
    with session(result.meta_graph) as sess:
        assert [sess.run("train:0", feed) for feed in (FEED, GRADIENTS_OVERFLOW, FEED)] == [1, 2, 2]


def test_a_kernel_that_takes_references_alone_is_dead_on_a_skipped_step():
    """An op that is on no list."""

    def build():
        x, _, factor = inputs()
        shrunk = tf.get_variable(
            "shrunk", (4,), initializer=tf.ones_initializer(), trainable=False, use_resource=False
        )
        with tf.control_dependencies([trained_on(tf.layers.dense(x, 8), factor)]):
            shrink = tf.raw_ops.SdcaShrinkL1(weights=[shrunk.op.outputs[0]], l1=0.1, l2=1.0)
        with tf.control_dependencies([shrink]):
            tf.identity(tf.constant(7), name="train")
        tf.global_variables_initializer()

    result = graphmp.convert(built(build), loss_scale_initial=64.0)
    assert result.report["warnings"] == []
    with session(result.meta_graph) as sess:
        fresh = state(sess)
        assert sess.run("train:0", GRADIENTS_OVERFLOW) == 7
        skipped = state(sess)
        assert own(changed(fresh, skipped)) == set()
        assert sess.run("train:0", FEED) == 7 and "shrunk" in changed(skipped, state(sess))


@pytest.mark.unit
@pytest.mark.parametrize("first", [0, 1])
def test_whether_all_values_are_finite_is_found_where_the_first_is_written(first):
    def build():
        x, _, factor = inputs()
        hidden = tf.layers.dense(x, 8)
        updates = []
        for name, number in (("a", first), ("b", 1 - first)):
            with tf.device("/device:CPU:%d" % number):
                updates.append(tf.assign_add(held(name, (8,)), hidden[number], name="add_" + name))
        tf.group(trained_on(hidden, factor), *updates, name="train")

    nodes = {node.name: node for node in graphmp.convert(built(build)).meta_graph.graph_def.node}
    both = nodes["graphmp/moving_averages/all_finite"]
    assert both.device == nodes["add_a"].device == "/device:CPU:%d" % first


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_features_of_one_branch_need_no_input_of_another(use_resource):
    """Each branch keeps statistics where it is computed; both lead to one update."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            features = []
            for name in ("A", "B"):
                with tf.variable_scope(name):
                    hidden = tf.layers.dense(tf.placeholder(tf.float32, (None, 8), "x"), 8)
                    with tf.control_dependencies(
                        [moved(held("mean", (8,)), tf.reduce_mean(hidden, 0))]
                    ):
                        features.append(tf.nn.relu(hidden, name="features"))
            tf.group(trained_on(features[0] - features[1], tf.constant(1.0)), name="train")
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build), loss_scale_initial=64.0).meta_graph) as sess:
        before = state(sess)
        sess.run("A/features:0", {"A/x:0": X})
        after = state(sess)
        assert changed(before, after) == ["A/mean"]
        sess.run("train", {"A/x:0": X, "B/x:0": X})
        assert {"A/mean", "B/mean", "A/dense/kernel"} <= set(changed(after, state(sess)))


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_statistics_in_a_while_loop_take_what_is_finite(use_resource):
    def build():
        with tf.variable_scope("", use_resource=use_resource):
            x, _, factor = inputs()
            mean, kernel = held("mean", (8,)), tf.get_variable("kernel", (8, 8))

            def body(i, y):
                y = tf.matmul(y, kernel)
                with tf.control_dependencies([moved(mean, tf.reduce_mean(y, 0))]):
                    return i + 1, tf.identity(y)

            _, hidden = tf.while_loop(lambda i, _: i < 2, body, [0, x])
            tf.group(trained_on(hidden, factor), name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    result = graphmp.convert(meta_graph, loss_scale_initial=64.0)
    assert result.report["warnings"] == []
    with session(result.meta_graph) as sess:
        fresh = state(sess)
        sess.run("train", FEED)
        before = state(sess)
        assert {"mean", "kernel"} <= set(changed(fresh, before))
        sess.run("train", VALUES_OVERFLOW)
        assert own(changed(before, state(sess))) == set()
    start, expected = trained(meta_graph, feed=FEED, as_written=True)
    result = graphmp.convert(meta_graph, compute_dtype="float32")
    assert (
        changed(expected, trained(result.meta_graph, start=start, feed=FEED, as_written=True)[1])
        == []
    )


@pytest.mark.unit
def test_a_count_in_a_while_loop_is_said():
    """It takes no floating-point value to check."""

    def build():
        x, _, factor = inputs()
        count, kernel = held("count", (), tf.int32), tf.get_variable("kernel", (8, 8))

        def body(i, y):
            y = tf.matmul(y, kernel)
            with tf.control_dependencies([tf.assign(count, tf.cast(y[0, 0], tf.int32))]):
                return i + 1, tf.identity(y)

        _, hidden = tf.while_loop(lambda i, _: i < 2, body, [0, x])
        tf.group(trained_on(hidden, factor), name="train")

    (row,) = graphmp.convert(built(build)).report["warnings"]
    assert row["code"] == "GMP112" and row["node"] == "while/Assign"


@pytest.mark.parametrize("in_turn, use_resource", in_turn([False, True], [False, True]))
def test_a_gan_with_statistics_in_both_nets(in_turn, use_resource):
    """A step of one net computes none of the other's gradients.

    A step that overflows leaves the other net's variables unchanged.
    """

    def net(x, name):
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            y = tf.layers.batch_normalization(
                tf.layers.dense(x, 8, name="a"), training=True, name="norm"
            )
            return tf.layers.dense(tf.nn.relu(y), 8, name="b")

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            x, _, factor = inputs()
            made = net(tf.random_uniform((6, 8)), "G")
            d_loss, g_loss = (
                square(net(x, "D") - 1) + square(net(made, "D")),
                square(net(made, "D") - 1) * factor,
            )
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                d = adam().minimize(d_loss, var_list=tf.trainable_variables("D"), name="d")
                with tf.control_dependencies([d] if in_turn else []):
                    g = adam().minimize(
                        g_loss,
                        tf.train.get_or_create_global_step(),
                        tf.trainable_variables("G"),
                        name="g",
                    )
            tf.group(d, g, name="train")
        tf.global_variables_initializer()

    result = graphmp.convert(built(build), loss_scale_initial=64.0)
    assert result.report["warnings"] == [] and len(result.report["losses"]) == 2
    with session(result.meta_graph) as sess:
        sess.run("train", FEED)
        before = state(sess)
        sess.run("train", GRADIENTS_OVERFLOW)
        after = state(sess)
        moved_on = own(changed(before, after))
        assert {
            name for name in moved_on if name.startswith("G/") and "moving" not in name
        } == set()
        assert (
            "D/a/kernel" in moved_on and ("global_step" in moved_on) == in_turn
        )  # counted after both
        assert len([name for name in moved_on if "moving" in name]) == 4
        sess.run("train", VALUES_OVERFLOW)
        assert all(np.isfinite(value).all() for value in state(sess).values())
