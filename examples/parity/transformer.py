"""A small Transformer that predicts the next character of English text.

It has causal attention, dropout, and a learning rate with warmup and decay.
"""

import data
import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 360
BATCH_SIZE = 16
LENGTH = 48
LEARNING_RATE = 0.006
WARMUP_STEPS = 40
WIDTH = 64
HEADS = 4
LAYERS = 2
DROPOUT = 0.1

MEASURE = "loss"
MARGIN = 0.01  # of float32's loss, for the reason given in char_lstm.py


def build():
    """Build the graph. Return the loss, the train op, and the measure: the loss.

    The loss is in nats per character.
    """
    inputs = tf.placeholder(tf.int32, [None, LENGTH], name="inputs")
    targets = tf.placeholder(tf.int32, [None, LENGTH], name="targets")
    training = tf.placeholder_with_default(False, [], name="training")
    near = tf.random_normal_initializer(stddev=0.1)
    table = tf.get_variable("embedding", [len(data.CHARACTERS), WIDTH], initializer=near)
    top = tf.nn.embedding_lookup(table, inputs) + tf.get_variable(
        "positions", [LENGTH, WIDTH], initializer=near
    )
    for number in range(LAYERS):
        with tf.variable_scope("layer%d" % number):
            top += tf.layers.dropout(_attention(_norm(top, "norm_a")), DROPOUT, training=training)
            inner = tf.layers.dense(
                _norm(top, "norm_b"), 4 * WIDTH, activation=tf.nn.relu, name="inner"
            )
            top += tf.layers.dropout(
                tf.layers.dense(inner, WIDTH, name="outer"), DROPOUT, training=training
            )
    logits = tf.layers.dense(_norm(top, "norm"), len(data.CHARACTERS), name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(targets, logits)
    step = tf.train.create_global_step()
    rate = tf.train.cosine_decay(LEARNING_RATE, step, STEPS) * tf.minimum(
        1.0, tf.cast(step + 1, tf.float32) / WARMUP_STEPS
    )
    return loss, tf.train.AdamOptimizer(rate).minimize(loss, step), loss


def _attention(top):
    """Causal attention: each position reads itself and earlier ones."""
    queries, keys, values = (
        _heads(tf.layers.dense(top, WIDTH, use_bias=False, name=name))
        for name in ("queries", "keys", "values")
    )
    scores = tf.matmul(queries, keys, transpose_b=True) / (WIDTH // HEADS) ** 0.5
    before = tf.linalg.band_part(tf.ones([LENGTH, LENGTH]), -1, 0)
    weights = tf.nn.softmax(scores + (1.0 - before) * -1e9)
    read = tf.reshape(tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3]), [-1, LENGTH, WIDTH])
    return tf.layers.dense(read, WIDTH, use_bias=False, name="read")


def _heads(top):
    return tf.transpose(tf.reshape(top, [-1, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def _norm(top, name):
    with tf.variable_scope(name):
        scale = tf.get_variable("scale", [WIDTH], initializer=tf.ones_initializer())
        shift = tf.get_variable("shift", [WIDTH], initializer=tf.zeros_initializer())
    mean, variance = tf.nn.moments(top, axes=[-1], keep_dims=True)
    return (top - mean) * tf.rsqrt(variance + 1e-6) * scale + shift


def batches(seed):
    """Endless training batches by placeholder names: random pieces of the text."""
    encoded = data.text()[0]
    random = np.random.RandomState(seed)
    while True:
        inputs, targets = data.windows(
            encoded, random.randint(0, len(encoded) - LENGTH, BATCH_SIZE), LENGTH
        )
        yield {"inputs:0": inputs, "targets:0": targets, "training:0": True}


def validation():
    """The batches over which the measure is averaged."""
    encoded = data.text()[1]
    for chosen in data.in_order(min(768, (len(encoded) - 1) // LENGTH), 64):
        inputs, targets = data.windows(encoded, chosen * LENGTH, LENGTH)
        yield {"inputs:0": inputs, "targets:0": targets}
