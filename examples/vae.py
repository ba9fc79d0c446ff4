"""A variational autoencoder in float32, as TensorFlow 1 code: random ops, exponentials, two losses.

    python examples/vae.py --smoke
    graphmp convert examples/vae.py
    graphmp run --compute_dtype=bfloat16 examples/vae.py --smoke

Kingma and Welling (2013, arXiv:1312.6114) with their sizes for handwritten digits: 500 hidden
neurons, tanh, black-and-white pictures. The loss is the negative lower bound of the log-likelihood,
in nats per picture: the cross entropy summed over all pixels, which is close to float16's limit,
and the divergence of the code from the prior.
"""

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (100, 16, "pictures a step"),
    "steps": (500, 80, "training steps"),
    "image_size": (28, 12, "height and width of the pictures"),
    "hidden": (500, 64, "neurons of the hidden layers"),
    "code": (20, 4, "size of a picture's code"),
    "learning_rate": (1e-3, 1e-2, "of Adam"),
}
PATTERNS = 10  # pictures of which all others are noisy copies
FLIPPED = 0.05  # share of their pixels


def build_training_model(pictures, hidden, code, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        pictures: float32, (batch, pixels), 0 or 1.
        hidden: neurons of the hidden layers.
        code: the size of a picture's code.
        learning_rate: of Adam.

    Returns:
        `pictures`, the loss, and the op that trains one step.
    """
    inner = tf.layers.dense(pictures, hidden, tf.tanh, name="encoder")
    mean = tf.layers.dense(inner, code, name="mean")
    log_variance = tf.layers.dense(inner, code, name="log_variance")
    drawn = mean + tf.exp(0.5 * log_variance) * tf.random_normal(tf.shape(mean), dtype=mean.dtype)
    inner = tf.layers.dense(drawn, hidden, tf.tanh, name="decoder")
    logits = tf.layers.dense(inner, pictures.shape[1], name="logits")

    cross_entropy = tf.reduce_sum(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=pictures, logits=logits), axis=1
    )
    divergence = 0.5 * tf.reduce_sum(
        tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0, axis=1
    )
    loss = tf.reduce_mean(cross_entropy) + tf.reduce_mean(divergence)
    return (
        pictures,
        loss,
        tf.train.AdamOptimizer(learning_rate).minimize(loss, tf.train.get_or_create_global_step()),
    )


def batches(flags):
    """Endless batches of pictures: each is one of PATTERNS patterns, with some pixels flipped."""
    random = np.random.RandomState(flags.seed)
    patterns = random.uniform(size=(PATTERNS, flags.image_size**2)) < 0.5
    while True:
        chosen = patterns[random.randint(0, PATTERNS, flags.batch_size)]
        yield ((chosen ^ (random.uniform(size=chosen.shape) < FLIPPED)).astype(np.float32),)


def main():
    """Train on made-up pictures."""
    flags = training.start(__doc__, SIZES)
    pictures = tf.placeholder(tf.float32, [None, flags.image_size**2], name="pictures")
    build = training.precision(flags)(build_training_model)
    pictures, loss, train_op = build(pictures, flags.hidden, flags.code, flags.learning_rate)
    training.train(flags, {"loss": loss}, train_op, (pictures,), batches(flags), flags.batch_size)


if __name__ == "__main__":
    main()
