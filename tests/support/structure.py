"""Small training graphs with loops and conditionals, and their conversions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

TF2 = tf.__version__ > "2"


needs_tf2 = pytest.mark.skipif(not TF2, reason="TensorFlow 1.15 has no such op")


X, W = "x Placeholder shape=[4,4]", "w Const"


EYE = np.eye(4, dtype=np.float32) * 0.75


def of_op(meta_graph, *ops):
    """The nodes of the main graph with one of the ops."""
    return [node for node in meta_graph.graph_def.node if node.op in ops]


def _loop():
    """A loop of matmuls whose result leads to a denied op, with its gradient."""
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)
    scale = tf.sin(tf.ones([4, 4]), name="scale")

    def body(i, y):
        return i + 1, tf.nn.relu(tf.matmul(y * scale, w))

    _, y = tf.while_loop(lambda i, y: i < 3, body, [0, x])
    loss = tf.reduce_sum(tf.square(y), name="loss")
    return loss, w


def _loop_with_gradient():
    loss, w = _loop()
    tf.identity(tf.gradients(loss, w)[0], name="gradient")


def _rnn():
    x = tf.placeholder(tf.float32, [3, 5, 4], name="x")
    cell = tf.nn.rnn_cell.LSTMCell(6, initializer=tf.initializers.orthogonal(seed=1), name="cell")
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(outputs)) + tf.reduce_mean(tf.square(state.h))
    tf.identity(loss, name="loss")
    for i, gradient in enumerate(tf.gradients(loss, tf.trainable_variables())):
        tf.identity(gradient, name="gradient%d" % i)


def _cond():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)
    y = tf.matmul(x, w)
    z = tf.cond(
        tf.reduce_sum(x) > -1e3,
        lambda: tf.nn.relu(tf.matmul(tf.exp(y), w)),
        lambda: tf.matmul(y, w) + 1.0,
    )
    tf.reduce_sum(tf.square(z), name="loss")


def _trained():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    function = tf.function(lambda x: tf.nn.relu(x))
    hidden = function(tf.layers.dense(x, 4, tf.nn.relu, name="one"))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 4, name="two")), name="loss")
    tf.add_to_collection("mine", loss)
    tf.add_to_collection("text", "some text")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def codes(rewriting):
    return {row["code"]: row for row in rewriting.record.warnings}


def not_lowered(meta_graph):
    """Loops and branches as executed by TensorFlow's kernels, without lowering."""
    copy = type(meta_graph)()
    copy.CopyFrom(meta_graph)
    for nodes in [
        copy.graph_def.node,
        *(function.node_def for function in copy.graph_def.library.function),
    ]:
        for node in nodes:
            node.attr.pop("_lower_using_switch_merge", None)
    return copy
