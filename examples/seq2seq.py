"""An LSTM translator in float32, as TensorFlow 1 code: while loops, attention, clipped gradients.

    python examples/seq2seq.py --smoke
    graphmp convert examples/seq2seq.py
    graphmp run --compute_dtype=bfloat16 examples/seq2seq.py --smoke

GNMT (Wu et al. 2016, arXiv:1609.08144): the encoder's first layer is bidirectional, layers above
the second are residual, and the decoder's lowest layer queries the attention (Bahdanau et al. 2014,
arXiv:1409.0473), whose output is an input of all layers. Training is teacher-forced.
"""

import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (128, 8, "sentences a step"),
    "steps": (100, 40, "training steps"),
    "length": (50, 8, "tokens in the longest sentences, and iterations of the loops"),
    "vocabulary": (32000, 32, "tokens in each language"),
    "layers": (8, 2, "LSTM layers in the encoder, and in the decoder"),
    "width": (1024, 32, "size of embeddings, and cells in a layer"),
    "learning_rate": (2e-4, 1e-2, "of Adam"),
}
PADDING, START = range(training.FIRST_TOKEN)  # tokens that don't occur in sentences
CLIP_NORM = 5.0


def build_training_model(source, target, vocabulary, layers, width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        source: int32, (batch, length), with PADDING after the end of a sentence.
        target: their translations, of the same shape.
        vocabulary: the number of tokens in each language.
        layers: the number of LSTM layers in the encoder, and in the decoder.
        width: the size of embeddings, and cells in a layer.
        learning_rate: of Adam.

    Returns:
        `source`, `target`, the loss, and the op that trains one step.
    """
    with tf.variable_scope("encoder"):
        memory = encode(embed(source, vocabulary, width), lengths(source), layers, width)
    with tf.variable_scope("decoder"):
        before = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=START)
        cell = AttentionCell(memory, tf.equal(source, PADDING), layers, width)
        top, _ = tf.nn.dynamic_rnn(
            cell, embed(before, vocabulary, width), lengths(target), dtype=tf.float32
        )
        logits = tf.layers.dense(top, vocabulary, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(
        target, logits, weights=tf.not_equal(target, PADDING)
    )

    optimizer = tf.train.AdamOptimizer(learning_rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
    train_op = optimizer.apply_gradients(
        zip(gradients, variables), tf.train.get_or_create_global_step()
    )
    return source, target, loss, train_op


def embed(tokens, vocabulary, width):
    """The embeddings of tokens."""
    table = tf.get_variable(
        "embedding", [vocabulary, width], initializer=tf.random_uniform_initializer(-0.1, 0.1)
    )
    return tf.nn.embedding_lookup(table, tokens)


def lengths(tokens):
    """The number of tokens in each sentence."""
    return tf.reduce_sum(tf.cast(tf.not_equal(tokens, PADDING), tf.int32), axis=1)


def encode(top, ends, layers, width):
    """The encoding of each token, (batch, length, width), with zeros after a sentence's end."""
    both = tf.nn.rnn_cell.LSTMCell(width), tf.nn.rnn_cell.LSTMCell(width)
    directions, _ = tf.nn.bidirectional_dynamic_rnn(
        *both, top, ends, dtype=tf.float32, scope="layer0"
    )
    top = tf.concat(directions, axis=2)
    for layer in range(1, layers):
        above, _ = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.LSTMCell(width), top, ends, dtype=tf.float32, scope="layer%d" % layer
        )
        top = above + top if layer > 1 else above
    return top


class AttentionCell(tf.nn.rnn_cell.RNNCell):
    """Layers of LSTM cells with attention to `memory`.

    It reads a token and returns the output of its highest layer and of the attention.
    """

    def __init__(self, memory, padding, layers, width):
        super().__init__()
        self._cells = [
            tf.nn.rnn_cell.LSTMCell(width, name="layer%d" % layer) for layer in range(layers)
        ]
        self._memory, self._width = memory, width
        self._keys = tf.layers.dense(memory, width, use_bias=False, name="keys")
        self._mask = -1e9 * tf.cast(padding, tf.float32)

    @property
    def state_size(self):
        return tuple(cell.state_size for cell in self._cells)

    @property
    def output_size(self):
        return 2 * self._width

    def __call__(self, inputs, state, scope=None):
        """Read a token; return the output, (batch, 2 * width), and the state."""
        top, below = self._cells[0](inputs, state[0])
        read = self._attend(top)
        states = [below]
        for layer, cell in enumerate(self._cells[1:], 1):
            above, after = cell(tf.concat([top, read], axis=1), state[layer])
            top = above + top if layer > 1 else above
            states.append(after)
        return tf.concat([top, read], axis=1), tuple(states)

    def _attend(self, query):
        """The mean of the memory, weighted by the match of each position with the query."""
        fit = tf.tanh(self._keys + tf.layers.dense(query, self._width, name="query")[:, None])
        weights = tf.nn.softmax(
            tf.layers.dense(fit, 1, use_bias=False, name="fit")[:, :, 0] + self._mask
        )
        return tf.reduce_sum(weights[:, :, None] * self._memory, axis=1)


def main():
    """Train on made-up sentences and their translations."""
    flags = training.start(__doc__, SIZES)
    source = tf.placeholder(tf.int32, [None, flags.length], name="source")
    target = tf.placeholder(tf.int32, [None, flags.length], name="target")
    build = training.precision(flags)(build_training_model)
    source, target, loss, train_op = build(
        source, target, flags.vocabulary, flags.layers, flags.width, flags.learning_rate
    )
    training.train(
        flags,
        {"loss": loss},
        train_op,
        (source, target),
        training.translations(flags),
        flags.batch_size * flags.length,
        "tokens",
    )


if __name__ == "__main__":
    main()
