"""Training graphs of any size, built with TensorFlow as programs of that many layers save them."""

from __future__ import annotations

import pathlib

import tensorflow.compat.v1 as tf

WIDTH, CLASSES = 16, 10


def write(nodes: int, path: pathlib.Path) -> int:
    """Write a training graph of about `nodes` nodes as a .meta file. Return the number of nodes.

    Half of the layers are convolutions, half dense, all with batch normalisation and a shortcut.
    The number of layers is computed from two small graphs that differ by one layer of each kind.
    """
    one, two = (len(build(pairs).graph_def.node) for pairs in (1, 2))
    meta_graph = build(max(1, 1 + round((nodes - one) / (two - one))))
    path.write_bytes(meta_graph.SerializeToString())
    return len(meta_graph.graph_def.node)


def build(pairs: int) -> tf.MetaGraphDef:
    """A classifier with `pairs` convolutions and as many dense layers.

    It has gradients, a clip, Adam and a Saver.
    """
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 8, 8, WIDTH], name="images")
        labels = tf.placeholder(tf.int32, [None], name="labels")
        for number in range(pairs):
            x = _convolution(x, "conv%d" % number)
        x = tf.reduce_mean(x, [1, 2])
        for number in range(pairs):
            x = _dense(x, "dense%d" % number)
        logits = tf.matmul(x, tf.get_variable("logits", [WIDTH, CLASSES]))
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            name="loss",
        )
        _train(loss)
        return tf.train.Saver().export_meta_graph()


def _convolution(x: tf.Tensor, name: str) -> tf.Tensor:
    """Convolution, fused batch normalisation with moving statistics, activation, shortcut."""
    with tf.variable_scope(name):
        y = tf.nn.conv2d(
            x, tf.get_variable("kernel", [3, 3, WIDTH, WIDTH]), strides=[1, 1, 1, 1], padding="SAME"
        )
        y, mean, variance = tf.nn.fused_batch_norm(y, _scale("gamma", 1.0), _scale("beta", 0.0))
        _keep_moving("mean", mean)
        _keep_moving("variance", variance)
        return x + tf.nn.relu(y)


def _dense(x: tf.Tensor, name: str) -> tf.Tensor:
    """Matmul, bias, batch normalisation of single ops, activation, shortcut."""
    with tf.variable_scope(name):
        y = tf.nn.bias_add(
            tf.matmul(x, tf.get_variable("kernel", [WIDTH, WIDTH])), _scale("bias", 0.0)
        )
        mean, variance = tf.nn.moments(y, [0])
        _keep_moving("mean", mean)
        return x + tf.nn.relu(
            tf.nn.batch_normalization(
                y, mean, variance, _scale("beta", 0.0), _scale("gamma", 1.0), 1e-3
            )
        )


def _scale(name: str, value: float) -> tf.Tensor:
    return tf.get_variable(name, [WIDTH], initializer=tf.constant_initializer(value))


def _keep_moving(name: str, statistic: tf.Tensor) -> None:
    moving = tf.get_variable(
        "moving_" + name, [WIDTH], initializer=tf.zeros_initializer(), trainable=False
    )
    tf.add_to_collection(
        tf.GraphKeys.UPDATE_OPS, tf.assign_sub(moving, 0.01 * (moving - statistic))
    )


def _train(loss: tf.Tensor) -> None:
    """Gradients, clipped together, and Adam after the moving statistics."""
    weights = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, weights), 5.0)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        tf.train.AdamOptimizer(1e-3).apply_gradients(zip(gradients, weights))
