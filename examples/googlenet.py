"""GoogLeNet in float32, as TensorFlow 1 code: Inception modules, two auxiliary classifiers.

    python examples/googlenet.py --smoke
    graphmp convert examples/googlenet.py
    graphmp run --compute_dtype=bfloat16 examples/googlenet.py --smoke

The network of Szegedy et al. (2014, arXiv:1409.4842, table 1), also called Inception v1: nine
modules, convolutions with biases, local response normalisation, and no batch normalisation. Three
losses train it; those of the auxiliary classifiers have the weight 0.3. Local response
normalisation stays float32. The CPU kernels of TensorFlow 1.15 don't support channels-first
convolutions.
"""

import functools

import inception
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = dict(
    training.IMAGENET,
    steps=(100, 40, "training steps"),
    image_size=(224, 80, "height and width of the images, 80 at least"),
    width=(64, 8, "channels of the first convolution"),
    modules=(
        5,
        1,
        "most modules one behind the other for images of a size; the network has 2, 5 and 2",
    ),
    learning_rate=(0.01, 0.01, "of the momentum optimizer"),
)
STAGES = {  # by image size: channels of 1x1, of 1x1 and 3x3, of 1x1 and 5x5, of 1x1 after pooling
    "28x28": [(64, (96, 128), (16, 32), 32), (128, (128, 192), (32, 96), 64)],
    "14x14": [
        (192, (96, 208), (16, 48), 64),
        (160, (112, 224), (24, 64), 64),
        (128, (128, 256), (24, 64), 64),
        (112, (144, 288), (32, 64), 64),
        (256, (160, 320), (32, 128), 128),
    ],
    "7x7": [(256, (160, 320), (32, 128), 128), (384, (192, 384), (48, 128), 128)],
}
AUXILIARY = ("14x14_0", "14x14_3")  # modules that an auxiliary classifier reads
AUXILIARY_WEIGHT = 0.3
SMALL = tf.random_normal_initializer(stddev=0.01)
MOMENTUM = 0.9
WEIGHT_DECAY = 2e-4


def build_training_model(images, labels, classes, width, modules, learning_rate, data_format):
    """Build the model, its loss and its training op.

    Args:
        images: float32, (batch, height, width, 3), or (batch, 3, height, width) for channels first;
            sides of at least 80.
        labels: int32 classes, (batch,).
        classes: the number of classes.
        width: channels of the first convolution, 64 in the paper.
        modules: the largest number of modules per image size, 5 for all.
        learning_rate: of the momentum optimizer.
        data_format: channels_last or channels_first.

    Returns:
        `images`, `labels`, the loss, and the op that trains one step.
    """
    build = functools.partial(convolution, data_format=data_format, share=width / 64)
    top = inception.branch(images, ((64, 7, 2), ("max", 3, 2)), build, data_format, "stem1")
    top = inception.branch(
        normalised(top, data_format), ((64, 1), (192, 3)), build, data_format, "stem2"
    )
    top = normalised(top, data_format)
    loss = 0.0
    for stage, rows in STAGES.items():
        top = inception.pool(top, "max", 3, 2, data_format=data_format)
        for number, channels in enumerate(rows[:modules]):
            name = "%s_%d" % (stage, number)
            top = inception.module(
                top, branches(*channels), build, data_format, "inception_" + name
            )
            if name in AUXILIARY:
                logits = auxiliary(top, classes, width, build, data_format, "auxiliary_" + name)
                loss += AUXILIARY_WEIGHT * tf.losses.sparse_softmax_cross_entropy(labels, logits)
    top = tf.reduce_mean(top, axis=[2, 3] if data_format == "channels_first" else [1, 2])
    logits = tf.layers.dense(
        tf.layers.dropout(top, 0.4, training=True), classes, kernel_initializer=SMALL, name="logits"
    )
    loss += tf.losses.sparse_softmax_cross_entropy(labels, logits) + training.weight_decay(
        WEIGHT_DECAY
    )
    optimizer = tf.train.MomentumOptimizer(learning_rate, MOMENTUM)
    return images, labels, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def branches(ones, threes, fives, pooled):
    """A row of STAGES, in the form that `inception` takes."""
    return (
        ((ones, 1),),
        ((threes[0], 1), (threes[1], 3)),
        ((fives[0], 1), (fives[1], 5)),
        (("max", 3), (pooled, 1)),
    )


def auxiliary(top, classes, width, build, data_format, name):
    """A classifier on an inner module, which passes gradients to the layers below."""
    with tf.variable_scope(name):
        top = inception.branch(
            top, (("avg", 5, 3, "valid"), (128, 1)), build, data_format, "reduce"
        )
        top = tf.layers.dense(tf.layers.flatten(top), 16 * width, tf.nn.relu, name="hidden")
        return tf.layers.dense(
            tf.layers.dropout(top, 0.7, training=True),
            classes,
            kernel_initializer=SMALL,
            name="logits",
        )


def normalised(top, data_format):
    """Local response normalisation over five channels; TensorFlow has it for channels last only."""
    if data_format == "channels_first":
        return tf.transpose(
            normalised(tf.transpose(top, [0, 2, 3, 1]), "channels_last"), [0, 3, 1, 2]
        )
    return tf.nn.lrn(top, depth_radius=2, bias=1.0, alpha=1e-4 / 5, beta=0.75)


def convolution(bottom, channels, size, stride, padding, name, data_format, share):
    """A convolution with bias, with this share of the channels."""
    he = tf.variance_scaling_initializer(2.0)
    channels = int(channels * share)
    return tf.layers.conv2d(
        bottom,
        channels,
        size,
        stride,
        padding,
        data_format,
        activation=tf.nn.relu,
        kernel_initializer=he,
        name=name,
    )


def main():
    """Train on made-up images."""
    training.train_classifier(
        __doc__, SIZES, build_training_model, "classes", "width", "modules", "learning_rate"
    )


if __name__ == "__main__":
    main()
