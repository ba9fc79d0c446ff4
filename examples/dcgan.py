"""A DCGAN in float32, as TensorFlow 1 code: two networks, each with its loss and optimizer.

    python examples/dcgan.py --smoke
    graphmp convert examples/dcgan.py
    graphmp run --compute_dtype=bfloat16 examples/dcgan.py --smoke

Radford et al. (2015, arXiv:1511.06434): a generator of strided transposed convolutions, a
discriminator of strided convolutions, and batch normalisation in both. One step trains both, each
against the other before the step. `--plot=FILE.png` draws their losses and loss scales.
"""

import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (128, 8, "images a step"),
    "steps": (100, 20, "training steps"),
    "image_size": (64, 16, "height and width of the images, 4 times a power of 2"),
    "classes": (10, 4, "kinds of images to imitate"),
    "noise": (100, 16, "size of the generator's input"),
    "width": (
        128,
        8,
        "channels of the layers at half the images' size; twice as many at a quarter, and so on",
    ),
    "learning_rate": (2e-4, 2e-3, "of Adam, for both networks"),
}
BETA1 = 0.5
KERNEL = 5
COARSEST = 4  # height and width of the generator's first layer


def build_training_model(images, noise, width, learning_rate, data_format):
    """Build the two networks, their losses and their training op.

    Args:
        images: float32 from -1 to 1, (batch, size, size, 3), or (batch, 3, size, size) for channels
            first.
        noise: the input of the generator, float32, (batch, numbers).
        width: channels of the layers at half the images' size.
        learning_rate: of Adam.
        data_format: channels_last or channels_first.

    Returns:
        `images`, `noise`, the losses of discriminator and generator, and the op that trains both
        one step.
    """
    made = generate(noise, int(images.shape[2]), width, data_format)
    real, false = discriminate(images, width, data_format), discriminate(made, width, data_format)
    discriminator_loss = cross_entropy(1.0, real) + cross_entropy(0.0, false)
    generator_loss = cross_entropy(1.0, false)

    optimizers = [tf.train.AdamOptimizer(learning_rate, BETA1) for _ in range(2)]
    train_op = training.opponents(
        {"discriminator": discriminator_loss, "generator": generator_loss}, optimizers
    )
    return images, noise, discriminator_loss, generator_loss, train_op


def generate(noise, size, width, data_format):
    """Images generated from noise, from -1 to 1."""
    with tf.variable_scope("generator"):
        channels = width * size // (2 * COARSEST)
        top = tf.layers.dense(
            noise, COARSEST**2 * channels, kernel_initializer=near(), use_bias=False, name="begin"
        )
        top = tf.reshape(top, [-1, COARSEST, COARSEST, channels])
        top = tf.transpose(top, [0, 3, 1, 2]) if data_format == "channels_first" else top
        top = tf.nn.relu(normalised(top, data_format, "norm%d" % COARSEST))
        at = 2 * COARSEST
        while at < size:
            channels //= 2
            top = enlarged(top, channels, data_format, use_bias=False, name="layer%d" % at)
            top = tf.nn.relu(normalised(top, data_format, "norm%d" % at))
            at *= 2
        return tf.tanh(enlarged(top, 3, data_format, use_bias=True, name="image"))


def discriminate(images, width, data_format):
    """The logits that images are real, (batch, 1)."""
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        top, at, channels = images, int(images.shape[2]) // 2, width
        while at >= COARSEST:
            first = top is images
            top = tf.layers.conv2d(
                top,
                channels,
                KERNEL,
                2,
                "same",
                data_format,
                use_bias=first,
                kernel_initializer=near(),
                name="layer%d" % at,
            )
            top = tf.nn.leaky_relu(top if first else normalised(top, data_format, "norm%d" % at))
            at, channels = at // 2, 2 * channels
        return tf.layers.dense(
            tf.layers.flatten(top, data_format=data_format),
            1,
            kernel_initializer=near(),
            name="odds",
        )


def enlarged(top, channels, data_format, use_bias, name):
    """A transposed convolution that doubles height and width."""
    return tf.layers.conv2d_transpose(
        top,
        channels,
        KERNEL,
        2,
        "same",
        data_format,
        use_bias=use_bias,
        kernel_initializer=near(),
        name=name,
    )


def normalised(top, data_format, name):
    """Batch normalisation."""
    return tf.layers.batch_normalization(
        top,
        1 if data_format == "channels_first" else 3,
        momentum=0.9,
        epsilon=1e-5,
        training=True,
        name=name,
    )


def near():
    """The initial values of the paper."""
    return tf.random_normal_initializer(stddev=0.02)


def cross_entropy(label, logits):
    """The mean cross-entropy if the correct answer is always `label`."""
    return tf.losses.sigmoid_cross_entropy(label * tf.ones_like(logits), logits)


def main():
    """Train on made-up images."""
    flags = training.start(__doc__, SIZES, data_format=True)
    images, _ = training.image_placeholders(flags)
    noise = tf.placeholder(tf.float32, [None, flags.noise], name="noise")
    build = training.precision(flags)(build_training_model)
    images, noise, down, up, train_op = build(
        images, noise, flags.width, flags.learning_rate, data_format=flags.data_format
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
