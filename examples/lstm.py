"""An LSTM language model in float32, as TensorFlow 1 code: while loops, clipped gradients.

    python examples/lstm.py --smoke
    graphmp convert examples/lstm.py
    graphmp run --compute_dtype=bfloat16 examples/lstm.py --smoke

tf.nn.dynamic_rnn makes a while loop over time for its two layers; tf.gradients makes a second loop,
which runs backwards and pops the values that the first one pushed on stacks.
"""

import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (32, 8, "sentences a step"),
    "steps": (100, 30, "training steps"),
    "length": (200, 12, "tokens in a sentence, and iterations of the loop"),
    "vocabulary": (10000, 64, "number of tokens"),
    "layers": (2, 2, "LSTM layers"),
    "width": (1024, 32, "size of embeddings, and cells in a layer"),
    "learning_rate": (1e-3, 1e-2, "of Adam"),
}
CLIP_NORM = 5.0


def build_training_model(tokens, following, vocabulary, layers, width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        tokens: int32, (batch, length).
        following: the token that follows each, of the same shape.
        vocabulary: the number of tokens.
        layers: the number of LSTM layers.
        width: the size of embeddings, and cells in a layer.
        learning_rate: of Adam.

    Returns:
        `tokens`, `following`, the loss, and the op that trains one step.
    """
    table = tf.get_variable(
        "embedding", [vocabulary, width], initializer=tf.random_uniform_initializer(-0.1, 0.1)
    )
    cells = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(width) for _ in range(layers)])
    top, _ = tf.nn.dynamic_rnn(cells, tf.nn.embedding_lookup(table, tokens), dtype=tf.float32)
    logits = tf.layers.dense(top, vocabulary, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(following, logits)

    optimizer = tf.train.AdamOptimizer(learning_rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
    train_op = optimizer.apply_gradients(
        zip(gradients, variables), tf.train.get_or_create_global_step()
    )
    return tokens, following, loss, train_op


def main():
    """Train on made-up sentences."""
    flags = training.start(__doc__, SIZES)
    tokens = tf.placeholder(tf.int32, [None, flags.length], name="tokens")
    following = tf.placeholder(tf.int32, [None, flags.length], name="following")
    build = training.precision(flags)(build_training_model)
    sizes = flags.vocabulary, flags.layers, flags.width, flags.learning_rate
    tokens, following, loss, train_op = build(tokens, following, *sizes)
    batches = (
        (sentences[:, :-1], sentences[:, 1:])
        for sentences in training.sentences(flags, flags.length + 1)
    )
    training.train(
        flags,
        {"loss": loss},
        train_op,
        (tokens, following),
        batches,
        flags.batch_size * flags.length,
        "tokens",
    )


if __name__ == "__main__":
    main()
