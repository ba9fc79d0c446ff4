"""An LSTM that predicts the next character of English text.

It has a while loop over time, clipped gradients and a decaying learning rate.
"""

import data
import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 360
BATCH_SIZE = 32
LENGTH = 32
LEARNING_RATE = 0.01
CLIP_NORM = 5.0
EMBEDDING = 32
HIDDEN = 96

MEASURE = "loss"
MARGIN = 0.01  # of float32's loss, as losses of language models are given to two or three digits


def build():
    """Build the graph. Return the loss, the train op, and the measure: the loss.

    The loss is in nats per character.
    """
    inputs = tf.placeholder(tf.int32, [None, LENGTH], name="inputs")
    targets = tf.placeholder(tf.int32, [None, LENGTH], name="targets")
    table = tf.get_variable(
        "embedding",
        [len(data.CHARACTERS), EMBEDDING],
        initializer=tf.random_normal_initializer(stddev=0.1),
    )
    cell = tf.nn.rnn_cell.LSTMCell(HIDDEN)
    top, _ = tf.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(table, inputs), dtype=tf.float32)
    logits = tf.layers.dense(top, len(data.CHARACTERS), name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(targets, logits)
    step = tf.train.create_global_step()
    optimizer = tf.train.AdamOptimizer(tf.train.cosine_decay(LEARNING_RATE, step, STEPS))
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
    return loss, optimizer.apply_gradients(zip(gradients, variables), step), loss


def batches(seed):
    """Endless training batches by placeholder names: random pieces of the text."""
    encoded = data.text()[0]
    random = np.random.RandomState(seed)
    while True:
        inputs, targets = data.windows(
            encoded, random.randint(0, len(encoded) - LENGTH, BATCH_SIZE), LENGTH
        )
        yield {"inputs:0": inputs, "targets:0": targets}


def validation():
    """The batches over which the measure is averaged."""
    encoded = data.text()[1]
    for chosen in data.in_order(min(1024, (len(encoded) - 1) // LENGTH), 64):
        inputs, targets = data.windows(encoded, chosen * LENGTH, LENGTH)
        yield {"inputs:0": inputs, "targets:0": targets}
