"""How the work of a conversion and its proof grows with the graph: no function works on pairs.

Executed lines are counted, not seconds: a loop inside a function counts too.
"""

from __future__ import annotations

import collections
import pathlib
import sys

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.executed.order import open_order
from graphmp.policy.policy import Policy
from graphmp.rewrite import pipeline
from graphmp.verify import verify

FEW = 500  # functions that run fewer more lines than this from size to size are left out
MOST = 1.15  # times as many more lines from the second size to the third as from the first to it
# Kinds of writes are compared in pairs: 1,000 layers with moving averages take 0.06 s.
PAIRS = "scaling/plan/joint_writes.py <genexpr>"


def dense(layers):
    """Layers with a Saver, whose ops read all variables."""
    x = h = tf.placeholder(tf.float32, [8, 16])
    for number in range(2 * layers):
        w = tf.get_variable("w%d" % number, [16, 16])
        h = tf.nn.relu(tf.matmul(h, w) + tf.get_variable("b%d" % number, [16]))
    loss = tf.reduce_mean(tf.square(h - x))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def normalised(layers):
    """Convolutions with moving statistics, a clip, and averages of the weights after each step."""
    x = h = tf.placeholder(tf.float32, [8, 4, 4, 16])
    for number in range(layers):
        with tf.variable_scope("layer%d" % number):
            h = tf.nn.conv2d(h, tf.get_variable("w", [3, 3, 16, 16]), [1, 1, 1, 1], "SAME")
            scale, offset = tf.get_variable("scale", [16]), tf.get_variable("offset", [16])
            h, mean, _ = tf.nn.fused_batch_norm(h, scale, offset)
            moving = tf.get_variable("mean", [16], trainable=False)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(moving, 0.9 * moving + mean))
    optimizer = tf.train.AdamOptimizer(0.1)
    gradients, variables = zip(*optimizer.compute_gradients(tf.reduce_mean(tf.square(h - x))))
    with tf.control_dependencies([tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))]):
        step = optimizer.apply_gradients(
            list(zip(tf.clip_by_global_norm(gradients, 1.0)[0], variables)),
            tf.train.get_or_create_global_step(),
        )
    with tf.control_dependencies([step]):
        tf.train.ExponentialMovingAverage(0.9).apply(variables)


def conditionals(layers):
    """Layers that are switched on and off."""
    x = h = tf.placeholder(tf.float32, [8, 16])
    on = tf.placeholder(tf.bool, [])
    for number in range(layers):
        w = tf.get_variable("w%d" % number, [16, 16])
        h = tf.cond(on, lambda: tf.nn.relu(tf.matmul(h, w)), lambda: h * 2.0)  # noqa: B023
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(h - x)))


def masked(layers):
    """Masks of a constant that float16 can't hold, added one after the other."""
    x = h = tf.placeholder(tf.float32, [8, 16])
    for number in range(10 * layers):
        h += -1e9 * tf.placeholder(tf.float32, [8, 16], "mask%d" % number)
    loss = tf.reduce_mean(tf.square(tf.matmul(h, tf.get_variable("w", [16, 16])) - x))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def assigned_anew(layers):
    """A rate assigned by a new op in each step, as a script does that calls tf.assign in a loop."""
    x = tf.placeholder(tf.float32, [8, 16])
    rate = tf.get_variable("rate", [], trainable=False)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, tf.get_variable("w", [16, 16])) - x))
    tf.train.AdamOptimizer(rate).minimize(loss)
    for _ in range(20 * layers):
        tf.assign(rate, 0.1)


def savers(layers):
    """A Saver and an init op made anew for each checkpoint."""
    assigned_anew(0)
    for _ in range(5 * layers):
        tf.train.Saver()
        tf.global_variables_initializer()


def built(build, size, use_resource):
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        build(size)
        tf.train.Saver()
        return tf.train.export_meta_graph()


def lines(work):
    """Lines of each function of graphmp that run while something does; one name, one count."""
    package = str(pathlib.Path(graphmp.__file__).parent)
    found = collections.Counter()

    def count(frame, event, _):
        found[frame.f_code] += event == "line"
        return count

    def enter(frame, *_):
        return count if frame.f_code.co_filename.startswith(package) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    named = collections.Counter()
    for code, number in found.items():
        named["%s %s" % (code.co_filename[len(package) + 1 :], code.co_name)] += number
    return named


def rewritten(meta_graph):
    return pipeline.rewrite(meta_graph, Config.make(), Policy.default("float16")).meta_graph


def grown(build, sizes, use_resource):
    """The functions that run more and more lines for each layer, with their lines by size."""
    counts = []
    for size in sizes:
        meta_graph = built(build, size, use_resource)
        converted = rewritten(meta_graph)
        verify(meta_graph, converted)
        counts.append(lines(lambda: rewritten(meta_graph)))  # noqa: B023
        for name, count in lines(lambda: verify(meta_graph, converted)).items():  # noqa: B023
            counts[-1]["verify: " + name] = count
    found = {name: [count[name] for count in counts] for name in counts[-1]}
    return {
        name: (one, two, three)
        for name, (one, two, three) in found.items()
        if name != PAIRS and three - two > FEW and three - two > MOST * (two - one)
    }


@pytest.mark.parametrize(
    "build, sizes",
    [
        (normalised, (1, 2, 3)),
        (conditionals, (2, 4, 6)),
        (masked, (1, 2, 3)),
        (assigned_anew, (1, 2, 3)),
        (savers, (1, 2, 3)),
    ],
)
def test_no_function_works_on_pairs_of_nodes(build, sizes):
    assert not grown(build, sizes, use_resource=False)


@pytest.mark.slow
@pytest.mark.parametrize("build", [dense, normalised, conditionals, assigned_anew])
def test_no_function_works_on_pairs_of_nodes_with_resource_variables(build):
    assert not grown(build, (2, 4, 6), use_resource=True)


def test_the_open_order_of_writes_is_found_in_one_walk():
    graphs = [built(dense, size, False) for size in (4, 8, 12)]
    one, two, three = (
        sum(lines(lambda: open_order(graph, ["Momentum"])).values())  # noqa: B023
        for graph in graphs
    )
    assert three - two <= MOST * (two - one)
