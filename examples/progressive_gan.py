"""A progressive GAN in float32, as TensorFlow 1 code: growing images, and a gradient penalty.

    python examples/progressive_gan.py --smoke
    graphmp convert examples/progressive_gan.py
    graphmp run --compute_dtype=bfloat16 examples/progressive_gan.py --smoke

Karras et al. (2017, arXiv:1710.10196), the last two stages of the growth to 128 x 128: pixel norm,
equalised learning rates, the standard deviation over a batch, and the Wasserstein loss with
gradient penalty. One graph has both stages: it learns coarse images first, and the full size is
faded in with the global step.
"""

import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (16, 4, "images a step"),
    "steps": (300, 24, "training steps"),
    "stage": (100, 8, "steps with coarse images, and steps that then fade in fine ones"),
    "image_size": (128, 16, "height and width of the fine images, 4 times a power of 2"),
    "classes": (10, 4, "kinds of images to imitate"),
    "noise": (512, 16, "size of the generator's input"),
    "width": (512, 16, "channels of layers up to 16 x 16; half as many for twice the height"),
    "learning_rate": (1e-3, 1e-3, "of Adam, for both networks"),
}
COARSEST = 4  # height and width of the generator's first layer
PENALTY = 10.0  # weight of the penalty for gradients whose norm isn't 1
DRIFT = 1e-3  # weight of the term that keeps the scores near 0


def build_training_model(images, noise, stage, width, learning_rate):
    """Build the two networks, their losses and their training op.

    Args:
        images: float32 from -1 to 1, (batch, size, size, 3).
        noise: the input of the generator, float32, (batch, numbers).
        stage: the number of steps with coarse images, and of steps in which fine ones are then
            faded in.
        width: channels of a layer for images up to 16 x 16; half as many for twice the height, and
            so on.
        learning_rate: of Adam.

    Returns:
        `images`, `noise`, the losses of discriminator and generator, and the op that trains both
        one step.
    """
    fade = tf.clip_by_value(
        tf.cast(tf.train.get_or_create_global_step(), tf.float32) / stage - 1.0, 0.0, 1.0
    )
    real = blend(doubled(halved(images)), images, fade)
    false = generate(noise, fade, int(images.shape[1]), width)
    between = blend(real, false, tf.random_uniform([tf.shape(images)[0], 1, 1, 1]))
    real_score, false_score, between_score = (
        discriminate(shown, fade, width) for shown in (real, false, between)
    )
    slopes = tf.sqrt(
        tf.reduce_sum(tf.square(tf.gradients(between_score, between)[0]), axis=[1, 2, 3])
    )
    penalty = PENALTY * tf.reduce_mean(tf.square(slopes - 1.0)) + DRIFT * tf.reduce_mean(
        tf.square(real_score)
    )
    discriminator_loss = tf.reduce_mean(false_score) - tf.reduce_mean(real_score) + penalty
    generator_loss = -tf.reduce_mean(false_score)

    optimizers = [tf.train.AdamOptimizer(learning_rate, 0.0, 0.99) for _ in range(2)]
    train_op = training.opponents(
        {"discriminator": discriminator_loss, "generator": generator_loss}, optimizers
    )
    return images, noise, discriminator_loss, generator_loss, train_op


def generate(noise, fade, size, width):
    """Images generated from noise: coarse ones for `fade` 0, fine ones for 1."""
    with tf.variable_scope("generator"):
        top = layer(pixel_norm(noise)[:, None, None], COARSEST**2 * width, "begin", 1)
        top, at = pixel_norm(tf.reshape(top, [-1, COARSEST, COARSEST, width])), COARSEST
        while at < size:
            top = pixel_norm(layer(top, top.shape[3], "second%d" % at))
            coarse = top
            at *= 2
            top = pixel_norm(layer(doubled(top), channels(width, at), "first%d" % at))
        fine = pixel_norm(layer(top, top.shape[3], "second%d" % at))
        coarse, fine = (
            convolution(top, 3, name, 1, gain=1.0)
            for top, name in ((coarse, "image%d" % (at // 2)), (fine, "image%d" % at))
        )
        return blend(doubled(coarse), fine, fade)


def discriminate(images, fade, width):
    """The scores of images, (batch,), high for real ones: coarse for `fade` 0, fine for 1."""
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        at = int(images.shape[1])
        top = layer(images, channels(width, at), "image%d" % at, 1)
        while at > COARSEST:
            top = layer(top, top.shape[3], "second%d" % at)
            at //= 2
            top = halved(layer(top, channels(width, at), "first%d" % at))
            if 2 * at == int(images.shape[1]):
                top = blend(layer(halved(images), top.shape[3], "image%d" % at, 1), top, fade)
        top = layer(with_deviation(top), top.shape[3], "last")
        top = layer(tf.reshape(top, [-1, 1, 1, COARSEST**2 * width]), width, "dense", 1)
        return convolution(top, 1, "score", 1, gain=1.0)[:, 0, 0, 0]


def channels(width, height):
    """The number of channels of a layer."""
    return min(width, 16 * width // height)


def layer(top, outputs, name, size=3):
    """A convolution and a leaky ReLU."""
    return tf.nn.leaky_relu(convolution(top, outputs, name, size))


def convolution(top, outputs, name, size, gain=2.0):
    """A convolution with an equalised learning rate.

    The kernel starts with variance 1 and is multiplied by the scale of He et al. (2015).
    """
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel",
            [size, size, top.shape[3], outputs],
            initializer=tf.random_normal_initializer(),
        )
        bias = tf.get_variable("bias", [outputs], initializer=tf.zeros_initializer())
        return (
            tf.nn.conv2d(
                top,
                kernel * (gain / (size * size * int(top.shape[3]))) ** 0.5,
                [1, 1, 1, 1],
                "SAME",
            )
            + bias
        )


def pixel_norm(top):
    """The channels of each pixel, divided by their root mean square."""
    return top * tf.rsqrt(tf.reduce_mean(tf.square(top), axis=-1, keepdims=True) + 1e-8)


def with_deviation(top):
    """The input with one more channel: the standard deviation over the batch, averaged."""
    _, variance = tf.nn.moments(top, axes=[0])
    return tf.concat(
        [top, tf.reduce_mean(tf.sqrt(variance + 1e-8)) * tf.ones_like(top[:, :, :, :1])], axis=3
    )


def doubled(top):
    """Images of twice the height and width: each pixel four times."""
    _, height, width, depth = top.shape
    pixels = tf.tile(tf.reshape(top, [-1, height, 1, width, 1, depth]), [1, 1, 2, 1, 2, 1])
    return tf.reshape(pixels, [-1, 2 * height, 2 * width, depth])


def halved(top):
    """Images of half the height and width: the mean of each four pixels."""
    return tf.nn.avg_pool2d(top, 2, 2, "VALID")


def blend(first, second, share):
    """A linear interpolation: `share` of the second and the rest of the first."""
    return first + (second - first) * share


def main():
    """Train on made-up images."""
    flags = training.start(__doc__, SIZES)
    images, _ = training.image_placeholders(flags)
    noise = tf.placeholder(tf.float32, [None, flags.noise], name="noise")
    build = training.precision(flags)(build_training_model)
    images, noise, down, up, train_op = build(
        images, noise, flags.stage, flags.width, flags.learning_rate
    )
    training.train(
        flags,
        {"discriminator_loss": down, "generator_loss": up},
        train_op,
        (images, noise),
        training.images_and_noise(flags),
        flags.batch_size,
    )


if __name__ == "__main__":
    main()
