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
    assert reasons[loss.op.name] == "loss: gradients are taken of it"


def _weighted(scores):
    weights = tf.stop_gradient(tf.nn.softmax(scores[:, 0]))
    return tf.tensordot(scores[:, 0], weights, 1)


_LOSSES = {
    "weighted": _weighted,
    "negative": lambda scores: -_weighted(scores),
    "divided": lambda scores: _weighted(scores) / 512.0,
    "product": lambda scores: tf.matmul(scores, tf.tanh(scores), transpose_a=True),
    "form": lambda scores: tf.squeeze(tf.matmul(tf.transpose(tf.matmul(_A, scores)), scores)),
    "scores": lambda scores: scores,
}
_A = [[1.0] * 8] * 8


@pytest.mark.parametrize("scale", ["none", "dynamic"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", sorted(_LOSSES))
def test_a_loss_by_a_matmul_is_float32_scaled_or_not(kind, dtype, scale):
    """So is a loss for each example, of which gradients are taken as of their sum."""
    with tf.Graph().as_default() as graph:
        hidden = tf.nn.relu(
            tf.matmul(tf.placeholder(tf.float32, [8, 8]), tf.get_variable("first", [8, 8]))
        )
        scores = tf.matmul(hidden, tf.get_variable("second", [8, 1]), name="scores")
        loss = _LOSSES[kind](scores)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    done = graphmp.convert(graph, compute_dtype=dtype, loss_scale=scale)
    matmuls = {
        node.name: node.attr["T"].type == tf.float32.as_datatype_enum
        for node in done.meta_graph.graph_def.node
        if node.op == "MatMul" and not node.name.startswith("gradients")
    }
    last = next(name for name in reversed(list(matmuls)) if kind != "scores" or name == "scores")
    assert matmuls[last] and not matmuls["MatMul"]
    claims = {claim.name: claim for claim in done.diff().claims}
    assert claims["loss"].verdict == claims["types"].verdict == "proved", claims


@pytest.mark.parametrize("scale", ["none", "dynamic"])
@pytest.mark.parametrize("kind", sorted(_LOSSES))
def test_so_is_the_loss_of_a_step_in_a_function(kind, scale):
    with tf.Graph().as_default() as graph:
        weights = [tf.get_variable(str(n), [8, n], use_resource=True) for n in (8, 1)]

        @tf.function
        def step(x):
            first, second = (each.read_value() for each in weights)
            scores = tf.matmul(tf.nn.relu(tf.matmul(x, first)), second, name="scores")
            loss = _LOSSES[kind](scores)
            for each, gradient in zip(weights, tf.gradients(loss, [first, second])):
                each.assign_sub(0.1 * gradient)
            return loss

        tf.identity(step(tf.placeholder(tf.float32, [8, 8])), name="train")
    done = graphmp.convert(graph, loss_scale=scale)
    (function,) = [each for each in done.meta_graph.graph_def.library.function if each.node_def]
    matmuls = {
        node.name: node.attr["T"].type == tf.float32.as_datatype_enum
        for node in function.node_def
        if node.op == "MatMul" and not node.name.startswith("gradients")
    }
    last = next(name for name in reversed(list(matmuls)) if kind != "scores" or name == "scores")
    assert matmuls[last] and not matmuls["MatMul"], matmuls
    claims = {claim.name: claim for claim in done.diff().claims}
    assert claims["types"].verdict == "proved", claims
