"""Inception v2 in float32, as TensorFlow 1 code: Inception modules with batch normalisation.

    python examples/inception_v2.py --smoke
    graphmp convert examples/inception_v2.py
    graphmp run --compute_dtype=bfloat16 examples/inception_v2.py --smoke

The network BN-Inception of Ioffe and Szegedy (2015, arXiv:1502.03167, figure 5), with a separable
first convolution and a momentum optimizer. As in TensorFlow's slim, two modules have 96 instead of
128 channels after pooling, which the sums in the figure require. The CPU kernels of TensorFlow 1.15
don't support channels-first convolutions.
"""

import functools

import inception
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = dict(
    training.IMAGENET,
    image_size=(224, 64, "height and width of the images"),
    width=(64, 8, "channels of the first convolution"),
    modules=(
        4,
        1,
        "most modules one behind the other for images of a size; the network has 2, 4 and 2",
    ),
    learning_rate=(0.045, 0.003, "of the momentum optimizer"),
)
DEPTH_MULTIPLIER = 8  # depthwise channels of the first convolution per image channel
STAGES = {  # by image size: channels of 1x1, 1x1 and 3x3, 1x1 and two 3x3; pooling and its 1x1
    "28x28": [(64, (64, 64), (64, 96), "avg", 32), (64, (64, 96), (64, 96), "avg", 64)],
    "to_14x14": [(0, (128, 160), (64, 96), "max", 0)],
    "14x14": [
        (224, (64, 96), (96, 128), "avg", 128),
        (192, (96, 128), (96, 128), "avg", 128),
        (160, (128, 160), (128, 160), "avg", 96),
        (96, (128, 192), (160, 192), "avg", 96),
    ],
    "to_7x7": [(0, (128, 192), (192, 256), "max", 0)],
    "7x7": [(352, (192, 320), (160, 224), "avg", 128), (352, (192, 320), (192, 224), "max", 128)],
}
MOMENTUM = 0.9
WEIGHT_DECAY = 4e-5


def build_training_model(images, labels, classes, width, modules, learning_rate, data_format):
    """Build the model, its loss and its training op.

    Args:
        images: float32, (batch, height, width, 3), or (batch, 3, height, width) for channels first.
        labels: int32 classes, (batch,).
        classes: the number of classes.
        width: channels of the first convolution, 64 in the paper.
        modules: the largest number of modules per image size, 4 for all.
        learning_rate: of the momentum optimizer.
        data_format: channels_last or channels_first.

    Returns:
        `images`, `labels`, the loss, and the op that trains one step.
    """
    build = functools.partial(convolution, data_format=data_format, share=width / 64)
    top = tf.layers.separable_conv2d(
        images,
        width,
        7,
        2,
        "same",
        data_format,
        depth_multiplier=DEPTH_MULTIPLIER,
        use_bias=False,
        name="stem",
    )
    top = normalised(top, data_format, "stem_norm")
    top = inception.branch(
        top, (("max", 3, 2), (64, 1), (192, 3), ("max", 3, 2)), build, data_format, "stem2"
    )
    for stage, rows in STAGES.items():
        for number, channels in enumerate(rows[:modules]):
            top = inception.module(
                top, branches(*channels), build, data_format, "inception_%s_%d" % (stage, number)
            )
    top = tf.reduce_mean(top, axis=[2, 3] if data_format == "channels_first" else [1, 2])
    logits = tf.layers.dense(top, classes, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits) + training.weight_decay(
        WEIGHT_DECAY
    )
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.MomentumOptimizer(learning_rate, MOMENTUM)
        return images, labels, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def branches(ones, threes, doubles, pooling, pooled):
    """A row of STAGES, in the form that `inception` takes.

    Without the first and the last number, it is a module that halves the image.
    """
    stride = 1 if ones else 2
    three = ((threes[0], 1), (threes[1], 3, stride))
    double = ((doubles[0], 1), (doubles[1], 3), (doubles[1], 3, stride))
    if not ones:
        return three, double, ((pooling, 3, stride),)
    return ((ones, 1),), three, double, ((pooling, 3), (pooled, 1))


def convolution(bottom, channels, size, stride, padding, name, data_format, share):
    """A convolution without bias, with this share of the channels, and batch normalisation."""
    he = tf.variance_scaling_initializer(2.0)
    channels = int(channels * share)
    top = tf.layers.conv2d(
        bottom,
        channels,
        size,
        stride,
        padding,
        data_format,
        use_bias=False,
        kernel_initializer=he,
        name=name,
    )
    return normalised(top, data_format, name + "_norm")


def normalised(top, data_format, name):
    """Batch normalisation and ReLU."""
    axis = 1 if data_format == "channels_first" else 3
    return tf.nn.relu(
        tf.layers.batch_normalization(
            top, axis, momentum=0.9, epsilon=1e-3, training=True, name=name
        )
    )


def main():
    """Train on made-up images."""
    training.train_classifier(
        __doc__, SIZES, build_training_model, "classes", "width", "modules", "learning_rate"
    )


if __name__ == "__main__":
    main()
