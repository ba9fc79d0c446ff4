"""A converted step computes what the original's step does, and no gradient beside."""

from __future__ import annotations

import collections
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.bench.graphs import step_targets
from graphmp.gate.reading import read_graph
from graphmp.graph.structure.view import GraphView
from tests.support.corpus import recorded
from tests.support.painting import built
from tests.support.step_work import computed

HEAVY = ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "MatMul")


def net(x, name="net"):
    """Two convolutions and a dense layer."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        for layer in ("first", "second"):
            x = tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu, name=layer)
        return tf.layers.dense(tf.layers.flatten(x), 4, name="top")


def images():
    return tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")


def plain():
    loss = tf.reduce_mean(net(images()) ** 2)
    tf.train.AdamOptimizer().minimize(loss, name="train")


def two_networks():
    """The second loss's gradients of the first one's variables are built, and not used."""
    first = net(images())
    other = tf.reduce_mean(net(tf.layers.dense(first, 3)[:, None, None] + images(), "other") ** 2)
    for loss, name in ((tf.reduce_mean(first**2), "net"), (other, "other")):
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, var_list=tf.trainable_variables(name))


def saliency():
    """The gradient of the images is fetched, but not in a step."""
    x = images()
    variables = tf.trainable_variables
    loss = tf.reduce_mean(net(x) ** 2)
    *found, beside = tf.gradients(loss, [*variables(), x])
    tf.identity(beside, name="saliency")
    tf.train.AdamOptimizer().apply_gradients(zip(found, variables()))


def not_all_applied():
    """The gradients of the first convolution are computed for a summary alone."""
    optimizer = tf.train.AdamOptimizer()
    found = optimizer.compute_gradients(tf.reduce_mean(net(images()) ** 2))
    tf.summary.histogram("first", found[0][0])
    optimizer.apply_gradients(found[2:])


def penalty():
    """The gradient of the images is part of the loss."""
    x = images()
    y = net(x)
    size = tf.norm(tf.layers.flatten(tf.gradients(y, x)[0]), axis=1)
    tf.train.AdamOptimizer().minimize(tf.reduce_mean(y**2) + tf.reduce_mean((size - 1) ** 2))


def assert_no_more_is_computed(original, **options):
    conversion = graphmp.convert(original, engine="rewrite", **options)
    losses = conversion.report["losses"]
    assert losses
    targets = step_targets(GraphView(original.graph_def), losses)
    names = {node.name for node in original.graph_def.node}
    before, after = computed(original, targets), computed(conversion.meta_graph, targets)
    assert before and after & names <= before


@pytest.mark.parametrize("clip_norm", [0, 1.0], ids=["", "clipped"])
@pytest.mark.parametrize("loss_scale", ["dynamic", 128.0])
@pytest.mark.parametrize("build", [plain, two_networks, saliency, not_all_applied, penalty])
def test_no_part_of_the_original_is_computed_beside(build, loss_scale, clip_norm):
    assert_no_more_is_computed(built(build), loss_scale=loss_scale, clip_norm=clip_norm)


@recorded(slice(0, 6), slow=slice(6, None))
def test_nor_in_recorded_graphs(paths):
    for path in paths:
        assert_no_more_is_computed(read_graph(str(path)), compute_dtype="float16")


def executed(graph, step, x):
    """How many of the heavy ops TensorFlow runs in a step, fused or not, by op."""
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    with tf.Session(graph=graph) as session:
        session.run("init")
        session.run(step, {x: np.ones((2, 8, 8, 3), np.float32)}, options, metadata)
    ops = [node.op for part in metadata.partition_graphs for node in part.node]
    plain = [re.sub("^_(Mkl)?(Native)?(Fused)?", "", op) for op in ops]
    return collections.Counter(op for op in plain if op in HEAVY)


def train(x):
    loss = tf.reduce_mean(net(x) ** 2)
    step = tf.train.AdamOptimizer().minimize(loss, name="train")
    tf.global_variables_initializer()
    return loss, step


def test_tensorflow_runs_as_many_convolutions():
    decorated = graphmp.mixed_precision(engine="recipe", compute_dtype="float16")(train)
    graphs = [built(lambda build=build: build(images())) for build in (train, decorated)]
    graphs.append(graphmp.convert(graphs[0], compute_dtype="float16").meta_graph)
    found = []
    for meta_graph in graphs:
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(meta_graph)
            found.append(executed(graph, "train", "x:0"))
    assert found[0]["Conv2DBackpropInput"] == 1
    assert found[1] == found[2] == found[0]
