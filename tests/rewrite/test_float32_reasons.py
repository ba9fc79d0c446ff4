"""A node with data and statistics in float32 has the reason of its data in a report."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp

pytestmark = pytest.mark.unit


def test_a_normalisation_tells_why_its_data_is_float32():
    with tf.Graph().as_default() as graph:
        images = tf.placeholder(tf.float32, [8, 8, 8, 8])
        kernel = tf.get_variable("kernel", [3, 3, 8, 8])
        within = tf.nn.fused_batch_norm(
            tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME"),
            tf.ones([8]),
            tf.zeros([8]),
            name="within",
        )[0]
        last = tf.nn.fused_batch_norm(
            tf.nn.conv2d(within, kernel, [1, 1, 1, 1], "SAME"),
            tf.ones([8]),
            tf.zeros([8]),
            name="last",
        )[0]
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(last)))
    reasons = {
        node: row["reason"]
        for row in graphmp.convert(graph).report["float32_nodes"]
        for node in row["nodes"]
    }
    assert (
        "within" not in reasons and reasons["last"] == "infer: leads to no other half-precision op"
    )


def test_a_loss_that_bfloat16_could_hold_is_float32():
    """The loss is in a scope that looks like gradient code, between half ops."""
    with tf.Graph().as_default() as graph:
        weights = [tf.get_variable("w%d" % number, [8, 8]) for number in range(2)]
        output = tf.matmul(
            tf.tanh(tf.matmul(tf.placeholder(tf.float32, [8, 8]), weights[0])), weights[1]
        )
        with tf.name_scope("gradients_1/loss_grad"):
            loss = tf.reduce_mean(tf.square(output), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    report = graphmp.convert(graph, compute_dtype="bfloat16", loss_scale=128.0).report
    reasons = {node: row["reason"] for row in report["float32_nodes"] for node in row["nodes"]}
    assert (
        reasons[loss.op.name]
        == "loss: computed in float32 (loss scale: gradients of this loss are multiplied by it)"
    )
