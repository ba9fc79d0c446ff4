"""A classifier of reviews in float32, as TensorFlow 1 code: a multiplicative LSTM on bytes.

    python examples/sentiment.py --smoke
    graphmp convert examples/sentiment.py
    graphmp run --compute_dtype=bfloat16 examples/sentiment.py --smoke

The cell (Krause et al. 2016, arXiv:1609.07959) and its sizes are those of Radford et al. (2017,
arXiv:1704.01444), with weight normalisation. There it predicts the next byte; here it predicts
whether a review is good or bad. The reviews are made up.
"""

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (128, 32, "reviews a step"),
    "steps": (100, 60, "training steps"),
    "length": (64, 32, "bytes read of a review, and iterations of the loop"),
    "embedding": (64, 16, "size of the embedding of a byte"),
    "width": (4096, 32, "cells in the layer"),
    "learning_rate": (5e-4, 2e-3, "of Adam"),
}
BYTES = 256
CLASSES = 2
SUBJECTS = ["plot", "film", "cast", "music", "ending"]
WORDS = [
    ["bad", "awful", "dull", "sad", "a mess"],
    ["good", "great", "superb", "fun", "a joy"],
]  # of bad reviews, of good ones


def build_training_model(reviews, labels, embedding, width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        reviews: their bytes, int32, (batch, length), with zeros after the end.
        labels: int32 classes, (batch,).
        embedding: the size of the embedding of a byte.
        width: cells in the layer.
        learning_rate: of Adam.

    Returns:
        `reviews`, `labels`, the loss, and the op that trains one step.
    """
    table = tf.get_variable(
        "embedding", [BYTES, embedding], initializer=tf.random_normal_initializer(stddev=0.1)
    )
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(reviews, 0), tf.int32), axis=1)
    cell = MultiplicativeLSTMCell(embedding, width)
    _, state = tf.nn.dynamic_rnn(
        cell, tf.nn.embedding_lookup(table, reviews), lengths, dtype=tf.float32
    )
    logits = tf.layers.dense(state.h, CLASSES, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    return (
        reviews,
        labels,
        loss,
        tf.train.AdamOptimizer(learning_rate).minimize(loss, tf.train.get_or_create_global_step()),
    )


class MultiplicativeLSTMCell(tf.nn.rnn_cell.RNNCell):
    """An LSTM cell whose gates read a product of the input and the state in place of the state.

    Each input thus has its own transition.
    """

    def __init__(self, inputs, width):
        super().__init__()
        self._width = width
        self._from_input, self._from_state = (
            normalised("wmx", inputs, width),
            normalised("wmh", width, width),
        )
        self._gates_of_input, self._gates_of_state = (
            normalised("wx", inputs, 4 * width),
            normalised("wh", width, 4 * width),
        )
        self._bias = tf.get_variable("b", [4 * width], initializer=tf.zeros_initializer())

    @property
    def state_size(self):
        return tf.nn.rnn_cell.LSTMStateTuple(self._width, self._width)

    @property
    def output_size(self):
        return self._width

    def __call__(self, inputs, state, scope=None):
        """Read one input; return the output and the state, (batch, width) each."""
        product = tf.matmul(inputs, self._from_input) * tf.matmul(state.h, self._from_state)
        gates = (
            tf.matmul(inputs, self._gates_of_input)
            + tf.matmul(product, self._gates_of_state)
            + self._bias
        )
        write, keep, show, value = tf.split(gates, 4, axis=1)
        cells = tf.sigmoid(keep) * state.c + tf.sigmoid(write) * tf.tanh(value)
        output = tf.sigmoid(show) * tf.tanh(cells)
        return output, tf.nn.rnn_cell.LSTMStateTuple(cells, output)


def normalised(name, inputs, outputs):
    """A kernel whose columns have trained norms (Salimans and Kingma 2016, arXiv:1602.07868)."""
    kernel = tf.get_variable(name, [inputs, outputs], initializer=tf.orthogonal_initializer())
    return tf.get_variable(
        "g" + name[1:], [outputs], initializer=tf.ones_initializer()
    ) * tf.nn.l2_normalize(kernel, axis=0)


def batches(flags):
    """Endless batches of reviews and labels: 1 for a good review, 0 for a bad one."""
    random = np.random.RandomState(flags.seed)
    while True:
        labels = random.randint(0, CLASSES, flags.batch_size).astype(np.int32)
        texts = [review(random, label) for label in labels]
        rows = [
            np.frombuffer(text.encode()[: flags.length].ljust(flags.length, b"\0"), np.uint8)
            for text in texts
        ]
        yield np.stack(rows).astype(np.int32), labels


def review(random, label):
    """A sentence of praise for the label 1, of criticism for 0; one in five uses a negation."""
    negated = int(random.randint(5) == 0)
    return "The %s was %s%s." % (
        random.choice(SUBJECTS),
        "not " * negated,
        random.choice(WORDS[label ^ negated]),
    )


def main():
    """Train on made-up reviews."""
    flags = training.start(__doc__, SIZES)
    reviews = tf.placeholder(tf.int32, [None, flags.length], name="reviews")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    build = training.precision(flags)(build_training_model)
    reviews, labels, loss, train_op = build(
        reviews, labels, flags.embedding, flags.width, flags.learning_rate
    )
    training.train(
        flags,
        {"loss": loss},
        train_op,
        (reviews, labels),
        batches(flags),
        flags.batch_size * flags.length,
        "tokens",
    )


if __name__ == "__main__":
    main()
