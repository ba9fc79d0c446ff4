"""word2vec in float32, as TensorFlow 1 code: skip-grams, noise-contrastive estimation.

    python examples/word2vec.py --smoke
    graphmp convert examples/word2vec.py
    graphmp run --compute_dtype=bfloat16 examples/word2vec.py --smoke

Each word predicts a neighbour (Mikolov et al. 2013, arXiv:1301.3781). tf.nn.nce_loss compares it
with sampled words only (Gutmann and Hyvarinen 2010), so that a step touches a few hundred rows of
the two tables: their gradients are IndexedSlices, before and after conversion.
"""

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (128, 64, "pairs of words a step"),
    "steps": (100, 60, "training steps"),
    "vocabulary": (50000, 200, "number of words"),
    "width": (128, 32, "size of embeddings"),
    "sampled": (64, 16, "sampled words per step"),
    "learning_rate": (1.0, 0.3, "of gradient descent"),
}
LENGTH = 20  # words in a sentence
WINDOW = 1  # the largest distance of a neighbour


def build_training_model(words, near, vocabulary, width, sampled, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        words: int32, (batch,).
        near: a neighbour of each, of the same shape.
        vocabulary: the number of words; those with low numbers are frequent.
        width: the size of embeddings.
        sampled: the number of sampled words, most of them frequent.
        learning_rate: of gradient descent.

    Returns:
        `words`, `near`, the loss, and the op that trains one step.
    """
    table = tf.get_variable(
        "embedding", [vocabulary, width], initializer=tf.random_uniform_initializer(-1.0, 1.0)
    )
    weights = tf.get_variable(
        "nce_weights",
        [vocabulary, width],
        initializer=tf.truncated_normal_initializer(stddev=width**-0.5),
    )
    biases = tf.get_variable("nce_biases", [vocabulary], initializer=tf.zeros_initializer())
    rows = tf.nn.embedding_lookup(table, words)
    loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, near[:, None], rows, sampled, vocabulary))
    optimizer = tf.train.GradientDescentOptimizer(learning_rate)
    return words, near, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def batches(flags):
    """Endless batches of words and a word within WINDOW of each, from made-up sentences."""
    random = np.random.RandomState(flags.seed)
    for sentences in training.sentences(flags, LENGTH):
        places = random.randint(WINDOW, LENGTH - WINDOW, flags.batch_size)
        away = random.choice([-1, 1], flags.batch_size) * random.randint(
            1, WINDOW + 1, flags.batch_size
        )
        every = np.arange(flags.batch_size)
        yield sentences[every, places], sentences[every, places + away]


def main():
    """Train on made-up sentences."""
    flags = training.start(__doc__, SIZES)
    words, near = (tf.placeholder(tf.int32, [None], name=name) for name in ("words", "near"))
    build = training.precision(flags)(build_training_model)
    words, near, loss, train_op = build(
        words, near, flags.vocabulary, flags.width, flags.sampled, flags.learning_rate
    )
    training.train(
        flags, {"loss": loss}, train_op, (words, near), batches(flags), flags.batch_size, "words"
    )


if __name__ == "__main__":
    main()
