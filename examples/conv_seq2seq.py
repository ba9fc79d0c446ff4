"""A convolutional translator in float32, as TensorFlow 1 code: gated convolutions and attention.

    python examples/conv_seq2seq.py --smoke
    graphmp convert examples/conv_seq2seq.py
    graphmp run --compute_dtype=bfloat16 examples/conv_seq2seq.py --smoke

Gehring et al. (2017, arXiv:1705.03122): embeddings of tokens and positions, gated linear units,
weight normalisation, causal convolutions and attention in each layer of the decoder, and a momentum
optimizer with clipped gradients. The sizes are those for English and Romanian; dropout is left out.
"""

import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (64, 8, "sentences a step"),
    "steps": (100, 40, "training steps"),
    "length": (50, 8, "tokens in the longest sentences"),
    "vocabulary": (40000, 32, "tokens in each language"),
    "layers": (20, 2, "convolutions in the encoder, and in the decoder"),
    "width": (512, 32, "size of embeddings, and channels of a layer"),
    "learning_rate": (0.25, 0.25, "of the momentum optimizer"),
}
PADDING, START = range(training.FIRST_TOKEN)  # tokens that don't occur in sentences
KERNEL = 3  # tokens in the window of a convolution
MOMENTUM = 0.99
CLIP_NORM = 0.1


def build_training_model(source, target, vocabulary, layers, width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        source: int32, (batch, length), with PADDING after the end of a sentence.
        target: their translations, of the same shape.
        vocabulary: the number of tokens in each language.
        layers: the number of convolutions in the encoder, and in the decoder.
        width: the size of embeddings, and channels of a layer.
        learning_rate: of the momentum optimizer.

    Returns:
        `source`, `target`, the loss, and the op that trains one step.
    """
    with tf.variable_scope("encoder"):
        keys, values = encode(embed(source, vocabulary, width), layers, width)
    with tf.variable_scope("decoder"):
        before = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=START)
        top = decode(
            embed(before, vocabulary, width), keys, values, tf.equal(source, PADDING), layers, width
        )
        logits = convolution(top, vocabulary, 1, 1.0, "VALID", "logits")
    loss = tf.losses.sparse_softmax_cross_entropy(
        target, logits, weights=tf.not_equal(target, PADDING)
    )

    optimizer = tf.train.MomentumOptimizer(learning_rate, MOMENTUM, use_nesterov=True)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
    train_op = optimizer.apply_gradients(
        zip(gradients, variables), tf.train.get_or_create_global_step()
    )
    return source, target, loss, train_op


def embed(tokens, vocabulary, width):
    """The embeddings of tokens and their positions."""
    near = tf.random_normal_initializer(stddev=0.1)
    table = tf.get_variable("embedding", [vocabulary, width], initializer=near)
    return tf.nn.embedding_lookup(table, tokens) + tf.get_variable(
        "positions", [tokens.shape[1], width], initializer=near
    )


def encode(embedded, layers, width):
    """The keys and values of the attention, (batch, length, width) each.

    The gradient is scaled down for the number of layers of the decoder, which all read them.
    """
    top = embedded
    for layer in range(layers):
        top = 0.5**0.5 * (gated(top, width, "SAME", "layer%d" % layer) + top)
    shared = 1.0 / (2 * layers)
    keys = shared * top + (1 - shared) * tf.stop_gradient(top)
    return keys, 0.5**0.5 * (keys + embedded)


def decode(embedded, keys, values, padding, layers, width):
    """The representation of the next token, (batch, length, width)."""
    mask = -1e9 * tf.cast(padding, tf.float32)[:, None]
    top = embedded
    for layer in range(layers):
        seen = tf.pad(top, [[0, 0], [KERNEL - 1, 0], [0, 0]])  # the window ends at the token itself
        with tf.variable_scope("layer%d" % layer):
            above = gated(seen, width, "VALID", "convolution")
            query = 0.5**0.5 * (convolution(above, width, 1, 1.0, "VALID", "query") + embedded)
            weights = tf.nn.softmax(tf.matmul(query, keys, transpose_b=True) + mask)
            read = int(keys.shape[1]) ** 0.5 * tf.matmul(weights, values)
            read = convolution(read, width, 1, 1.0, "VALID", "read")
        top = 0.5**0.5 * (0.5**0.5 * (above + read) + top)
    return top


def gated(top, width, padding, name):
    """A gated linear unit (Dauphin et al. 2016, arXiv:1612.08083).

    The one half of the convolution's channels gates the other.
    """
    value, gate = tf.split(convolution(top, 2 * width, KERNEL, 2.0, padding, name), 2, axis=2)
    return value * tf.sigmoid(gate)


def convolution(top, channels, size, gain, padding, name):
    """A convolution along the sentence, with weight normalisation (arXiv:1602.07868).

    The kernel of each channel has a trained norm, which starts at `gain`.
    """
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", [size, top.shape[2], channels], initializer=tf.random_normal_initializer()
        )
        length = tf.get_variable("length", [channels], initializer=tf.constant_initializer(gain))
        bias = tf.get_variable("bias", [channels], initializer=tf.zeros_initializer())
        return (
            tf.nn.conv1d(top, length * tf.nn.l2_normalize(kernel, axis=[0, 1]), 1, padding) + bias
        )


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
