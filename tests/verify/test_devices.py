"""Devices of added nodes."""

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.verify import verify
from tests.support.proved import Planted, open_claims, original_and_converted

FIRST, SECOND = "/device:GPU:0", "/device:GPU:1"


def model(devices=(FIRST, SECOND)):
    """A tower on each of two devices."""
    optimizer, gradients = tf.train.MomentumOptimizer(0.1, 0.9), []
    for number, device in enumerate(devices):
        with tf.device(device), tf.variable_scope("layers", reuse=number > 0):
            x = tf.placeholder(tf.float32, [4, 8], name="x%d" % number)
            hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("first", [8, 8])))
            loss = tf.nn.l2_loss(tf.matmul(hidden, tf.get_variable("second", [8, 1])))
            gradients.append(optimizer.compute_gradients(loss))
    optimizer.apply_gradients(
        [((a + b) / 2, variable) for (a, variable), (b, _) in zip(*gradients)], name="train"
    )


@pytest.fixture(scope="module")
def graphs():
    return original_and_converted(model)


def test_where_they_are_is_proved(graphs):
    assert not open_claims(*graphs)


def test_a_short_name_is_the_same_device():
    def towers():
        model((lambda op: "/gpu:0", lambda op: "/gpu:1"))

    assert not open_claims(*original_and_converted(towers))


@pytest.mark.parametrize("op", ["Cast", "Mul"])
def test_one_that_is_moved_away_from_its_neighbours(graphs, op):
    original, other = graphs
    before = {node.name for node in original.graph_def.node}
    moved = [
        node.name
        for node in other.graph_def.node
        if node.name not in before and node.op == op and node.device == SECOND
    ]
    assert moved
    graph = Planted(other)
    graph.nodes[moved[0]].device = FIRST
    found = open_claims(original, graph.meta_graph)
    assert "%s is on device '%s'" % (moved[0], FIRST) in found["same graph"]


def on_two_devices():
    """Two losses; the init op is a group of one node for each device."""
    with tf.Graph().as_default():
        losses = []
        for number, device in enumerate(("/cpu:0", None)):
            x = tf.placeholder(tf.float32, [4, 8])
            with tf.device(device), tf.variable_scope("model%d" % number):
                losses.append(tf.reduce_mean(tf.square(tf.layers.dense(x, 3))))
                tf.train.GradientDescentOptimizer(0.1).minimize(losses[-1])
        tf.global_variables_initializer()
        return tf.train.export_meta_graph()


def test_an_init_op_with_a_part_for_each_device():
    original = on_two_devices()
    converted = graphmp.convert(original).meta_graph
    assert {"init/NoOp", "init/NoOp_1"} <= {node.name for node in original.graph_def.node}
    assert verify(original, converted).ok
    starts = [n for n in converted.graph_def.node if n.name in ("init/NoOp", "init/NoOp_1")]
    part = next(n for n in starts if any("graphmp" in name for name in n.input))
    del part.input[[("graphmp" in name) for name in part.input].index(True)]
    failed = [claim for claim in verify(original, converted).claims if claim.verdict == "failed"]
    assert "initialises a part of what the scales keep" in failed[0].text
