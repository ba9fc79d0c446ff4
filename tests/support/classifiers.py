"""MetaGraphDefs of two classifiers: a small one, and one with all that half precision affects."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf


def classifier(batch=None, units=16):
    """A small classifier's MetaGraphDef, with an unknown batch size unless it is given."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [batch, 8], "x")
        labels = tf.placeholder(tf.int32, [batch], "labels")
        w, v = tf.get_variable("w", [8, units]), tf.get_variable("v", [units, 4])
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w)), v)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        return tf.train.export_meta_graph()


def training_graph() -> tf.MetaGraphDef:
    """A convolution, batch norm, masked attention with -1e9, an Exp between matmuls, and more.

    It has a softmax loss, Adam and odd dimensions.
    """
    random = np.random.RandomState(0)

    def weight(name, *shape):
        return tf.get_variable(
            name, initializer=random.normal(size=shape).astype(np.float32), use_resource=False
        )

    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, (8, 9, 9, 3), name="images")
        mask = tf.placeholder(tf.float32, (8, 8), name="mask")
        labels = tf.placeholder(tf.int32, (8,), name="labels")
        pictures = tf.nn.conv2d(
            images, weight("filter", 3, 3, 3, 12), [1, 1, 1, 1], "SAME", name="conv"
        )
        pictures = tf.nn.relu(
            tf.nn.fused_batch_norm(pictures, weight("gamma", 12), weight("beta", 12), name="norm")[
                0
            ],
            name="relu",
        )
        query = tf.matmul(tf.reshape(pictures, (8, 972)), weight("query", 972, 16), name="dense")
        scores = tf.matmul(query, query, transpose_b=True, name="scores")
        masked = tf.add(scores, tf.multiply(1 - mask, -1e9, name="far"), name="masked")
        context = tf.matmul(tf.nn.softmax(masked, name="attention"), query, name="context")
        logits = tf.nn.bias_add(
            tf.matmul(tf.exp(context, name="exp"), weight("output", 16, 5), name="logits"),
            weight("bias", 5),
            name="biased",
        )
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            name="loss",
        )
        tf.train.AdamOptimizer(0.01).minimize(loss)
        return tf.train.export_meta_graph()


def half_already(dtype=tf.float16) -> tf.MetaGraphDef:
    """A training graph whose matmul computes in half precision already."""
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [8, 4], "x"), tf.placeholder(tf.float32, [8, 2], "y")
        product = tf.matmul(tf.cast(x, dtype), tf.cast(tf.get_variable("w", [4, 2]), dtype))
        loss = tf.reduce_mean(tf.square(tf.cast(product, tf.float32) - y), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        tf.global_variables_initializer()
        return tf.train.export_meta_graph()
