"""A Transformer encoder in float32, as TensorFlow 1 code, that learns to fill in masked words: attention, layer norm, Adam.

    python examples/transformer.py --smoke
    graphmp convert examples/transformer.py
    graphmp run --compute_dtype=bfloat16 examples/transformer.py --smoke

By its sizes it is BERT's base model (Devlin et al. 2018, arXiv:1810.04805), with the normalisation ahead of each layer. Masks of -1e9 keep the
attention off padding, and epsilons are 1e-12: float16 holds neither, and what uses them stays float32.
"""

import numpy as np
import training  # before TensorFlow: see there

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (32, 8, "sentences a step"),
    "steps": (100, 30, "training steps"),
    "length": (128, 16, "tokens in the longest sentences"),
    "vocabulary": (30528, 64, "how many tokens there are"),
    "layers": (12, 2, "layers of attention"),
    "heads": (12, 4, "of the attention"),
    "head_width": (64, 8, "numbers that a head reads and writes for each token"),
    "learning_rate": (1e-4, 5e-3, "of Adam"),
}
PADDING, MASK = range(training.FIRST_TOKEN)  # tokens that no sentence has
MASKED = 0.15  # of a sentence's tokens


def build_training_model(tokens, masked, vocabulary, layers, heads, head_width, learning_rate):
    """Builds the model, its loss and its training step.

    Args:
        tokens: int32, (batch, length); PADDING behind the end of a sentence.
        masked: which tokens the model doesn't see and has to guess, bool of the same shape.
        vocabulary: how many tokens there are.
        layers: how many layers of attention.
        heads: of the attention.
        head_width: numbers that a head reads and writes for each token; those of all heads represent it.
        learning_rate: of Adam.

    Returns:
        tokens and masked as they were given, the loss and the operation that trains one step.
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
    """Each token reads all tokens of its sentence; `padding` is added to the scores, (batch, 1, 1, length)."""
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
    """Each token's numbers with mean 0 and variance 1, then scaled and shifted."""
    with tf.variable_scope(name):
        scale = tf.get_variable("scale", [top.shape[-1]], initializer=tf.ones_initializer())
        shift = tf.get_variable("shift", [top.shape[-1]], initializer=tf.zeros_initializer())
    mean, variance = tf.nn.moments(top, axes=[-1], keep_dims=True)
    return (top - mean) * tf.rsqrt(variance + 1e-12) * scale + shift


def gelu(top):
    """The Gaussian error linear unit (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""
    return 0.5 * top * (1.0 + tf.erf(top / 2**0.5))


def batches(flags):
    """Endless batches of padded sentences and of which of their tokens are masked."""
    random = np.random.RandomState(flags.seed)
    for tokens in training.sentences(flags, flags.length):
        ends = random.randint(flags.length // 2, flags.length + 1, (flags.batch_size, 1))
        inside = np.arange(flags.length) < ends
        masked = inside & (random.uniform(size=tokens.shape) < MASKED)
        masked[:, 0] = True  # one at least
        yield np.where(inside, tokens, PADDING), masked


def main():
    """Trains on made-up sentences."""
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
