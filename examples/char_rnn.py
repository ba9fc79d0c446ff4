"""A stateful LSTM character model of real text in float32, as TensorFlow 1 code.

    python examples/char_rnn.py --smoke
    graphmp convert examples/char_rnn.py
    graphmp run --compute_dtype=bfloat16 examples/char_rnn.py --smoke

The text is Python's language reference, which comes with Python. Each row of a batch continues the
same row of the batch before: the LSTM state is kept in variables that aren't trained. Gradients
stop at the beginning of a batch, and their elements are clipped (Graves 2013, arXiv:1308.0850).
"""

import itertools

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf
from parity.data import CHARACTERS, text, windows

SIZES = {
    "batch_size": (50, 16, "pieces of text a step"),
    "steps": (200, 80, "training steps"),
    "length": (50, 12, "characters in a piece, and iterations of the loop"),
    "layers": (2, 2, "LSTM layers"),
    "width": (512, 32, "cells in a layer"),
    "learning_rate": (2e-3, 0.1, "of RMSProp"),
}
DECAY = 0.95
CLIP_VALUE = 5.0


def build_training_model(characters, following, layers, width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        characters: int32 indices into CHARACTERS, (batch, length), with a known batch size.
        following: the character that follows each, of the same shape.
        layers: the number of LSTM layers.
        width: cells in a layer.
        learning_rate: of RMSProp.

    Returns:
        `characters`, `following`, the loss, and the op that trains one step and keeps the state.
    """
    cells = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(width) for _ in range(layers)])
    sizes = tf.nest.flatten(cells.state_size)
    zeros = tf.zeros_initializer()
    kept = [
        tf.get_variable(
            "state%d" % i, [characters.shape[0], size], initializer=zeros, trainable=False
        )
        for i, size in enumerate(sizes)
    ]
    state = tf.nest.pack_sequence_as(cells.state_size, [tf.identity(variable) for variable in kept])
    top, state = tf.nn.dynamic_rnn(
        cells, tf.one_hot(characters, len(CHARACTERS)), initial_state=state
    )
    logits = tf.layers.dense(top, len(CHARACTERS), name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(following, logits)

    optimizer = tf.train.RMSPropOptimizer(learning_rate, DECAY)
    gradients = optimizer.compute_gradients(loss)
    clipped = [
        (tf.clip_by_value(gradient, -CLIP_VALUE, CLIP_VALUE), variable)
        for gradient, variable in gradients
    ]
    trained = optimizer.apply_gradients(clipped, tf.train.get_or_create_global_step())
    with tf.control_dependencies(
        [trained]
    ):  # not earlier: the gradients need the state from the beginning of the batch
        train_op = tf.group(
            [tf.assign(variable, value) for variable, value in zip(kept, tf.nest.flatten(state))]
        )
    return characters, following, loss, train_op


def batches(flags):
    """Endless batches of the text.

    Each row has its own part of the text, and continues where it ended in the batch before.
    """
    encoded = text()[0]
    starts = np.arange(flags.batch_size) * (len(encoded) // flags.batch_size)
    for read in itertools.count(step=flags.length):
        yield windows(encoded, (starts + read) % (len(encoded) - flags.length), flags.length)


def main():
    """Train on Python's language reference."""
    flags = training.start(__doc__, SIZES)
    characters = tf.placeholder(tf.int32, [flags.batch_size, flags.length], name="characters")
    following = tf.placeholder(tf.int32, [flags.batch_size, flags.length], name="following")
    build = training.precision(flags)(build_training_model)
    characters, following, loss, train_op = build(
        characters, following, flags.layers, flags.width, flags.learning_rate
    )
    training.train(
        flags,
        {"loss": loss},
        train_op,
        (characters, following),
        batches(flags),
        flags.batch_size * flags.length,
        "tokens",
    )


if __name__ == "__main__":
    main()
