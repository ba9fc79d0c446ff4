"""What gates of values cost in a step that isn't skipped."""

from __future__ import annotations

import collections

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.loss_scale.gradients import SMALL
from tests.support.painting import built
from tests.support.scaled import changed, session
from tests.support.training import state
from tests.support.training_graphs import sgd, square, vectors

OWN = "graphmp/moving_averages/"


def normalised(*units):
    """Layers with moving averages, which wait for no gradient."""
    x = tf.placeholder(tf.float32, [4, 8], "x")
    for number, each in enumerate(units):
        name = "layer%d" % number
        x = tf.layers.dense(x, each, name=name)
        x = tf.layers.batch_normalization(x, training=True, name=name + "/norm")
    factor = tf.placeholder_with_default(1.0, (), "factor")
    loss = tf.reduce_mean(x**2) * factor
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        tf.train.AdamOptimizer(0.1).minimize(loss, name="train")
    tf.global_variables_initializer()


def converted(*units):
    conversion = graphmp.convert(
        built(lambda: normalised(*units)), loss_scale="dynamic", loss_scale_initial=64.0
    )
    return conversion.meta_graph


def checks_of_values(meta_graph):
    """The IsFinite ops of moving averages."""
    return [
        node.name
        for node in meta_graph.graph_def.node
        if node.op == "IsFinite" and node.name.startswith(OWN)
    ]


@pytest.mark.unit
def test_small_values_are_tested_as_one():
    meta_graph = converted(8, 16, 8)
    assert checks_of_values(meta_graph) == [OWN + "is_finite"]
    (joined,) = (node for node in meta_graph.graph_def.node if node.name == OWN + "small")
    assert joined.attr["N"].i == 6


@pytest.mark.unit
def test_a_large_value_is_tested_alone():
    large = checks_of_values(converted(8, SMALL + 1, 8))
    assert len(large) == 3  # a mean, a variance, and the small ones as one
    assert OWN + "is_finite" in large


def test_a_step_that_is_not_skipped_computes_no_value_of_a_skipped_one():
    """Nor does it copy a new value: what isn't taken is dead."""
    feed = {"x:0": [[1.0] * 8, [2.0] * 8, [0.5] * 8, [-1.0] * 8]}
    ran = tf.RunMetadata()
    with session(converted(8, 8)) as sess:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        for _ in range(2):  # the first step measures gradients
            before = state(sess)
            sess.run("train", feed, options=options, run_metadata=ran)
        names = {
            node.node_name for device in ran.step_stats.dev_stats for node in device.node_stats
        }
        selected = {name for name in names if name.endswith("/selected")}  # two of them beta powers
        assert len(selected) == 6 and not {name for name in names if name.endswith("/zeros")}
        assert changed(before, state(sess))


@pytest.mark.unit
@pytest.mark.parametrize("nd", [False, True])
def test_a_skipped_step_reads_the_rows_that_it_would_have_written_alone(nd):
    """Not all of a large table."""

    def build():
        x, ids = vectors(), tf.placeholder(tf.int32, (8, 1) if nd else (8,), "ids")
        table = tf.get_variable("table", (1000, 4), trainable=False, use_resource=True)
        y = tf.matmul(x, tf.get_variable("w", (12, 4)))
        write = tf.scatter_nd_update if nd else tf.scatter_update
        tf.group(sgd().minimize(square(y)), write(table, ids, y), name="train")

    original = built(build)
    before, after = (
        collections.Counter(node.op for node in graph.graph_def.node if "table" in node.input)
        for graph in (original, graphmp.convert(original).meta_graph)
    )
    assert after - before == {"ResourceGatherNd" if nd else "ResourceGather": 1}


@pytest.mark.parametrize("place", range(4))
def test_one_value_that_is_not_finite_keeps_all(place):
    """Values that are tested as one are written together."""
    meta_graph = converted(8, 8)
    joined = next(node for node in meta_graph.graph_def.node if node.name == OWN + "small")
    feed = {"x:0": [[1.0] * 8, [2.0] * 8, [0.5] * 8, [-1.0] * 8]}
    with session(meta_graph) as sess:
        moving = sorted(name for name in state(sess) if "moving" in name)
        before = state(sess)
        spoilt = joined.input[place] + ":0"
        sess.run("train", {**feed, spoilt: [float("nan")] * 8})
        after = state(sess)
        assert all((before[name] == after[name]).all() for name in moving) and len(moving) == 4
        sess.run("train", feed)
        assert all((after[name] != state(sess)[name]).any() for name in moving)
