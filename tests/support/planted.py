"""Small training models, each with one numerical fault of half precision in the scope `fault`."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

BATCH, WIDTH, CLASSES = 16, 32, 10


def dense(x, units, name, activation=tf.nn.relu):
    with tf.variable_scope(name):
        weight = tf.get_variable("weight", [x.shape[1].value, units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        y = tf.nn.bias_add(tf.matmul(x, weight), bias)
        return activation(y) if activation else y


def held(name, value):
    """A constant unknown to the painter: the value of a variable that isn't trained."""
    return tf.get_variable(name, initializer=np.float32(value), trainable=False)


def nothing(h):
    return h


def activation(h):
    """Activations of 1e5, reduced after a Relu."""
    big = held("big", 1e5)
    return tf.nn.relu(h * big) / big


def epsilon(h):
    """Rows divided by their largest element plus an epsilon of 1e-12.

    Rows of padding are zeros: 0 / 0 without the epsilon.
    """
    rows = h * np.float32(np.arange(BATCH) % 4 != 0)[:, np.newaxis]
    largest = tf.stop_gradient(tf.reduce_max(rows, 1, keepdims=True))
    return rows / (largest + held("epsilon", 1e-12))


def mask(h):
    """Attention whose mask subtracts 1e9: infinity in half precision, times zero where unmasked."""
    far = np.float32(1 - np.tril(np.ones((BATCH, BATCH))))
    scores = tf.matmul(h, h, transpose_b=True) - tf.nn.relu(
        far * tf.reshape(held("far", 1e9), [1, 1])
    )
    return h + tf.matmul(tf.nn.softmax(scores), h)


def long_sum(h, times=100000 // WIDTH, each=30.0):
    """A sum over 100,000 values, as a matmul with ones, scaled to order 1."""
    many = tf.reshape(tf.tile(h, [1, times]), [BATCH, -1])
    return h + tf.matmul(many, np.full((times * WIDTH, 1), each, np.float32)) / held(
        "count", times * WIDTH * each
    )


def short_sum(h):
    """The same, small enough for half precision."""
    return long_sum(h, each=0.001)


def identifiers(h):
    """Row numbers above 2048, selected by a matmul."""
    numbers = tf.cast(tf.range(BATCH) * 100 + 2049, tf.float32)[:, tf.newaxis]
    picked = tf.matmul(numbers, np.ones((1, 1), np.float32))
    table = tf.get_variable("table", [BATCH * 100 + 2049, WIDTH])
    return h + tf.gather(table, tf.cast(picked[:, 0], tf.int32))


def tiny_gradients(h):
    """The identity: the fault is in the loss."""
    return h


FAULTS = {
    f.__name__: f
    for f in (nothing, activation, epsilon, mask, long_sum, short_sum, identifiers, tiny_gradients)
}


def planted(fault, optimizer=None):
    """A classifier's MetaGraphDef with a fault between its two layers."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [BATCH, WIDTH], "x")
        labels = tf.placeholder(tf.int32, [BATCH], "labels")
        h = dense(x, WIDTH, "before")
        with tf.variable_scope("fault"):
            h = FAULTS[fault](h)
        logits = dense(h, CLASSES, "after", None)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            name="loss",
        )
        if fault == "tiny_gradients":
            loss = tf.multiply(loss, 1e-9, "tiny")
        (optimizer or tf.train.GradientDescentOptimizer(0.1)).minimize(loss, name="train")
        return tf.train.export_meta_graph()


def batches(steps=4):
    """The feeds: an array per placeholder, with a batch for each step."""
    random = np.random.RandomState(0)
    return {
        "x": random.normal(size=(steps, BATCH, WIDTH)).astype(np.float32),
        "labels": random.randint(0, CLASSES, (steps, BATCH)).astype(np.int32),
    }
