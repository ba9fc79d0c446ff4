"""A convolutional variational autoencoder of handwritten digits (Kingma and Welling, 2013)."""

import data
import tensorflow.compat.v1 as tf

STEPS = 800
BATCH_SIZE = 50
LEARNING_RATE = 0.003
LATENT = 16
WIDTHS = (16, 32)
HIDDEN = 256

MEASURE = "loss"
# Of float32's loss. Bounds of the log-likelihood of digits are near 100 nats and are published with
# a precision of 1 or 0.1 nats.
MARGIN = 0.01


def build():
    """Build the graph. Return the loss, the train op, and the measure: the loss.

    The loss is the negative evidence lower bound, in nats per picture.
    """
    images = tf.placeholder(tf.float32, [None, 28, 28, 1], name="images")
    mean, log_variance = _encoder(images)
    latent = mean + tf.exp(0.5 * log_variance) * tf.random_normal(tf.shape(mean))
    logits = _decoder(latent)
    pixels = tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits)
    divergence = 0.5 * (tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0)
    loss = tf.reduce_mean(
        tf.reduce_sum(pixels, axis=[1, 2, 3]) + tf.reduce_sum(divergence, axis=1), name="loss"
    )
    step = tf.train.create_global_step()
    rate = tf.train.cosine_decay(LEARNING_RATE, step, STEPS)
    return loss, tf.train.AdamOptimizer(rate).minimize(loss, step), loss


def _encoder(images):
    top = tf.layers.conv2d(
        images, WIDTHS[0], 3, 2, padding="same", activation=tf.nn.elu, name="encoder0"
    )
    top = tf.layers.conv2d(
        top, WIDTHS[1], 3, 2, padding="same", activation=tf.nn.elu, name="encoder1"
    )
    top = tf.layers.dense(tf.layers.flatten(top), HIDDEN, activation=tf.nn.elu, name="encoder2")
    return tf.layers.dense(top, LATENT, name="mean"), tf.layers.dense(
        top, LATENT, name="log_variance"
    )


def _decoder(latent):
    top = tf.layers.dense(latent, 7 * 7 * WIDTHS[1], activation=tf.nn.elu, name="decoder0")
    top = tf.reshape(top, [-1, 7, 7, WIDTHS[1]])
    top = tf.layers.conv2d_transpose(
        top, WIDTHS[0], 3, 2, padding="same", activation=tf.nn.elu, name="decoder1"
    )
    return tf.layers.conv2d_transpose(top, 1, 3, 2, padding="same", name="decoder2")


def batches(seed):
    """Endless training batches, by placeholder names."""
    images = data.digits()[0][0]
    for chosen in data.shuffled(len(images), BATCH_SIZE, seed):
        yield {"images:0": images[chosen]}


def validation():
    """The batches over which the measure is averaged."""
    images = data.digits()[1][0]
    for chosen in data.in_order(len(images), 200):
        yield {"images:0": images[chosen]}
