"""A Transformer encoder in float32, as TensorFlow 1 code, that predicts masked words.

    python examples/transformer.py --smoke
    graphmp convert examples/transformer.py
    graphmp run --compute_dtype=bfloat16 examples/transformer.py --smoke

It has the sizes of BERT's base model (Devlin et al. 2018, arXiv:1810.04805), with layer
normalisation before each layer, and is trained by Adam. Masks of -1e9 exclude padding from the
attention, and epsilons are 1e-12: neither is representable in float16, and the ops that use them
stay float32.
"""

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (32, 8, "sentences a step"),
    "steps": (100, 30, "training steps"),
    "length": (128, 16, "tokens in the longest sentences"),
    "vocabulary": (30528, 64, "number of tokens"),
    "layers": (12, 2, "layers of attention"),
    "heads": (12, 4, "attention heads"),
    "head_width": (64, 8, "size of a head"),
    "learning_rate": (1e-4, 5e-3, "of Adam"),
}
PADDING, MASK = range(training.FIRST_TOKEN)  # tokens that don't occur in sentences
MASKED = 0.15  # share of masked tokens


def build_training_model(tokens, masked, vocabulary, layers, heads, head_width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        tokens: int32, (batch, length), with PADDING after the end of a sentence.
        masked: bool of the same shape, true for tokens hidden from the model, which it predicts.
        vocabulary: the number of tokens.
        layers: the number of layers.
        heads: the number of attention heads.
        head_width: the size of a head; a token's representation has this size times `heads`.
        learning_rate: of Adam.

    Returns:
        `tokens`, `masked`, the loss, and the op that trains one step.
    """
    width = heads * head_width
    near = tf.truncated_normal_initializer(stddev=0.02)
    table = tf.get_variable("embedding", [vocabulary, width], initializer=near)
    positions = tf.get_variable("positions", [tokens.shape[1], width], initializer=near)
    padding = -1e9 * tf.cast(tf.equal(tokens, PADDING), tf.float32)[:, None, None, :]
    top = (
        tf.nn.embedding_lookup(table, tf.where(masked, MASK * tf.ones_like(tokens), tokens))
        + positions
    )
    for number in range(layers):
        with tf.variable_scope("layer%d" % number):
            top += attention(layer_norm(top, "attention_norm"), padding, heads)
            inner = tf.layers.dense(layer_norm(top, "inner_norm"), 4 * width, gelu, name="inner")
            top += tf.layers.dense(inner, width, name="outer")
    guesses = tf.boolean_mask(layer_norm(top, "norm"), masked)
    logits = tf.matmul(guesses, table, transpose_b=True) + tf.get_variable(
        "bias", [vocabulary], initializer=tf.zeros_initializer()
    )
    loss = tf.losses.sparse_softmax_cross_entropy(tf.boolean_mask(tokens, masked), logits)
    return (
        tokens,
        masked,
        loss,
        tf.train.AdamOptimizer(learning_rate).minimize(loss, tf.train.get_or_create_global_step()),
    )


def attention(top, padding, heads):
    """Attention of each token to all tokens of its sentence.

    `padding`, (batch, 1, 1, length), is added to the scores.
    """
    length, width = (int(size) for size in top.shape[1:])

    def split(name):
        by_head = tf.reshape(
            tf.layers.dense(top, width, name=name), [-1, length, heads, width // heads]
        )
        return tf.transpose(by_head, [0, 2, 1, 3])

    scores = tf.matmul(split("queries"), split("keys"), transpose_b=True) / (width // heads) ** 0.5
    read = tf.matmul(tf.nn.softmax(scores + padding), split("values"))
    return tf.layers.dense(
        tf.reshape(tf.transpose(read, [0, 2, 1, 3]), [-1, length, width]), width, name="read"
    )


def layer_norm(top, name):
    """Layer normalisation: mean 0 and variance 1 for each token, then a scale and a shift."""
    with tf.variable_scope(name):
        scale = tf.get_variable("scale", [top.shape[-1]], initializer=tf.ones_initializer())
        shift = tf.get_variable("shift", [top.shape[-1]], initializer=tf.zeros_initializer())
    mean, variance = tf.nn.moments(top, axes=[-1], keep_dims=True)
    return (top - mean) * tf.rsqrt(variance + 1e-12) * scale + shift


def gelu(top):
    """The Gaussian error linear unit (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""
    return 0.5 * top * (1.0 + tf.erf(top / 2**0.5))


def batches(flags):
    """Endless batches of padded sentences and masks."""
    random = np.random.RandomState(flags.seed)
    for tokens in training.sentences(flags, flags.length):
        ends = random.randint(flags.length // 2, flags.length + 1, (flags.batch_size, 1))
        inside = np.arange(flags.length) < ends
        masked = inside & (random.uniform(size=tokens.shape) < MASKED)
        masked[:, 0] = True  # at least one
        yield np.where(inside, tokens, PADDING), masked


def main():
    """Train on made-up sentences."""
    flags = training.start(__doc__, SIZES)
    tokens = tf.placeholder(tf.int32, [None, flags.length], name="tokens")
    masked = tf.placeholder(tf.bool, [None, flags.length], name="masked")
    build = training.precision(flags)(build_training_model)
    sizes = flags.vocabulary, flags.layers, flags.heads, flags.head_width, flags.learning_rate
    tokens, masked, loss, train_op = build(tokens, masked, *sizes)
    training.train(
        flags,
        {"loss": loss},
        train_op,
        (tokens, masked),
        batches(flags),
        flags.batch_size * flags.length,
        "tokens",
    )


if __name__ == "__main__":
    main()
