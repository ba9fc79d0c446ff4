"""U-Net in float32, as TensorFlow 1 code: downsampling, upsampling, a class for each pixel.

    python examples/unet.py --smoke
    graphmp convert examples/unet.py
    graphmp run --compute_dtype=bfloat16 examples/unet.py --smoke

The network of Ronneberger et al. (2015, arXiv:1505.04597, figure 1): unpadded convolutions, which
leave 388 of 572 pixels per side; cropped skip connections; one image per step and a momentum of
0.99; dropout at the end of the downsampling. The images are noisy discs, and the classes are disc
and background.
"""

import itertools

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (1, 4, "images a step"),
    "steps": (100, 20, "training steps"),
    "image_size": (572, 60, "height and width of the images"),
    "depth": (4, 2, "how often the image is halved"),
    "width": (64, 8, "channels of the first convolution"),
    "learning_rate": (1e-3, 1e-2, "of the momentum optimizer"),
}
MOMENTUM = 0.99
DROPOUT = 0.5
DISCS = 6  # per image
BATCHES = 4  # made once and reused


def build_training_model(images, labels, depth, width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        images: float32, (batch, height, width, 1).
        labels: int32, 0 or 1, (batch, height, width); the margin removed by the convolutions is
            ignored.
        depth: how often the image is halved.
        width: channels of the first convolution.
        learning_rate: of the momentum optimizer.

    Returns:
        `images`, `labels`, the loss, and the op that trains one step.
    """
    top, skipped = images, []
    for level in range(depth):
        skipped.append(two_convolutions(top, width << level, "down%d" % level))
        top = tf.layers.max_pooling2d(skipped[-1], 2, 2)
    top = tf.layers.dropout(two_convolutions(top, width << depth, "bottom"), DROPOUT, training=True)
    for level in reversed(range(depth)):
        top = tf.layers.conv2d_transpose(top, width << level, 2, 2, name="up%d_wider" % level)
        top = tf.concat([cropped(skipped[level], top), top], axis=3)
        top = two_convolutions(top, width << level, "up%d" % level)
    logits = tf.layers.conv2d(top, 2, 1, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(cropped(labels, logits), logits)
    optimizer = tf.train.MomentumOptimizer(learning_rate, MOMENTUM)
    return images, labels, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def two_convolutions(top, channels, name):
    """Two unpadded 3x3 convolutions: the image loses 2 pixels on each side."""
    he = tf.variance_scaling_initializer(2.0)
    for number in (1, 2):
        top = tf.layers.conv2d(
            top,
            channels,
            3,
            activation=tf.nn.relu,
            kernel_initializer=he,
            name="%s_%d" % (name, number),
        )
    return top


def cropped(larger, smaller):
    """The centre of the larger image, with the other's height and width."""
    height, width = (
        int(large) - int(small) for large, small in zip(larger.shape[1:3], smaller.shape[1:3])
    )
    return larger[
        :,
        height // 2 : larger.shape[1] - (height + 1) // 2,
        width // 2 : larger.shape[2] - (width + 1) // 2,
    ]


def batches(flags):
    """Endless batches of images and of the class of each pixel.

    A disc is brighter by 1 than the background; the noise has a standard deviation of 0.5.
    """
    random = np.random.RandomState(flags.seed)
    rows, columns = np.mgrid[: flags.image_size, : flags.image_size]

    def batch():
        places = random.uniform(0, flags.image_size, (2, flags.batch_size, DISCS, 1, 1))
        radii = random.uniform(0.05, 0.2, (flags.batch_size, DISCS, 1, 1)) * flags.image_size
        labels = (np.hypot(rows - places[0], columns - places[1]) < radii).any(axis=1)
        images = labels - 0.5 + random.normal(0, 0.5, labels.shape)
        return images[..., None].astype(np.float32), labels.astype(np.int32)

    return itertools.cycle(batch() for _ in range(BATCHES))


def main():
    """Train on made-up images."""
    flags = training.start(__doc__, SIZES)
    images = tf.placeholder(
        tf.float32, [None, flags.image_size, flags.image_size, 1], name="images"
    )
    labels = tf.placeholder(tf.int32, [None, flags.image_size, flags.image_size], name="labels")
    build = training.precision(flags)(build_training_model)
    images, labels, loss, train_op = build(
        images, labels, flags.depth, flags.width, flags.learning_rate
    )
    training.train(
        flags, {"loss": loss}, train_op, (images, labels), batches(flags), flags.batch_size
    )


if __name__ == "__main__":
    main()
