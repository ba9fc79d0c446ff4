"""Inception v3 in float32, as TensorFlow 1 code: factorised convolutions, label smoothing, RMSProp.

    python examples/inception_v3.py --smoke
    graphmp convert examples/inception_v3.py
    graphmp run --compute_dtype=bfloat16 examples/inception_v3.py --smoke

The network of Szegedy et al. (2015, arXiv:1512.00567, table 1), with the modules as published with
TensorFlow, and with its auxiliary classifier, whose loss has the weight 0.4. The CPU kernels of
TensorFlow 1.15 don't support channels-first convolutions.
"""

import functools

import inception
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = dict(
    training.IMAGENET,
    batch_size=(32, 8, "images a step"),
    image_size=(299, 107, "height and width of the images, 107 at least"),
    width=(32, 4, "channels of the first convolution"),
    modules=(
        4,
        1,
        "most modules one behind the other for images of a size; the network has 3, 4 and 2",
    ),
    learning_rate=(0.045, 0.002, "of RMSProp"),
)
STEM = (
    (32, 3, 2, "valid"),
    (32, 3, 1, "valid"),
    (64, 3),
    ("max", 3, 2, "valid"),
    (80, 1),
    (192, 3, 1, "valid"),
    ("max", 3, 2, "valid"),
)
HALVED = ("max", 3, 2, "valid")


def large(pooled):
    """A module at 35x35, with `pooled` channels after pooling."""
    return ((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)), (("avg", 3), (pooled, 1))


def middle(inner):
    """A module at 17x17, with `inner` inner channels."""
    wide, high = (1, 7), (7, 1)
    once = (inner, 1), (inner, wide), (192, high)
    twice = (inner, 1), (inner, high), (inner, wide), (inner, high), (192, wide)
    return ((192, 1),), once, twice, (("avg", 3), (192, 1))


SPLIT = ((384, (1, 3)), (384, (3, 1)))
SMALL = (
    ((320, 1),),
    ((384, 1), SPLIT),
    ((448, 1), (384, 3), SPLIT),
    (("avg", 3), (192, 1)),
)  # at 8x8
TO_MIDDLE = (((384, 3, 2, "valid"),), ((64, 1), (96, 3), (96, 3, 2, "valid")), (HALVED,))
TO_SMALL = (
    ((192, 1), (320, 3, 2, "valid")),
    ((192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, "valid")),
    (HALVED,),
)
STAGES = {  # modules by image size
    "35x35": [large(32), large(64), large(64)],
    "to_17x17": [TO_MIDDLE],
    "17x17": [middle(128), middle(160), middle(160), middle(192)],
    "to_8x8": [TO_SMALL],
    "8x8": [SMALL, SMALL],
}
AUXILIARY_WEIGHT = 0.4
LABEL_SMOOTHING = 0.1
WEIGHT_DECAY = 4e-5


def build_training_model(images, labels, classes, width, modules, learning_rate, data_format):
    """Build the model, its loss and its training op.

    Args:
        images: float32, (batch, height, width, 3), or (batch, 3, height, width) for channels first;
            sides of at least 107.
        labels: int32 classes, (batch,).
        classes: the number of classes.
        width: channels of the first convolution, 32 in the paper.
        modules: the largest number of modules per image size, 4 for all.
        learning_rate: of RMSProp.
        data_format: channels_last or channels_first.

    Returns:
        `images`, `labels`, the loss, and the op that trains one step.
    """
    build = functools.partial(convolution, data_format=data_format, share=width / 32)
    targets = tf.one_hot(labels, classes)
    top = inception.branch(images, STEM, build, data_format, "stem")
    loss = 0.0
    for stage, tables in STAGES.items():
        for number, branches in enumerate(tables[:modules]):
            top = inception.module(
                top, branches, build, data_format, "inception_%s_%d" % (stage, number)
            )
        if stage == "17x17":
            logits = auxiliary(top, classes, build, data_format)
            loss += AUXILIARY_WEIGHT * tf.losses.softmax_cross_entropy(
                targets, logits, label_smoothing=LABEL_SMOOTHING
            )
    top = tf.reduce_mean(top, axis=[2, 3] if data_format == "channels_first" else [1, 2])
    logits = tf.layers.dense(tf.layers.dropout(top, 0.2, training=True), classes, name="logits")
    loss += tf.losses.softmax_cross_entropy(
        targets, logits, label_smoothing=LABEL_SMOOTHING
    ) + training.weight_decay(WEIGHT_DECAY)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.RMSPropOptimizer(learning_rate, decay=0.9, momentum=0.9, epsilon=1.0)
        return images, labels, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def auxiliary(top, classes, build, data_format):
    """A classifier on the last 17x17 images, which passes gradients to the layers below."""
    top = inception.branch(top, (("avg", 5, 3, "valid"), (128, 1)), build, data_format, "auxiliary")
    size = int(top.shape[2])
    top = build(top, 768, size, 1, "valid", "auxiliary/whole")
    return tf.layers.dense(tf.layers.flatten(top), classes, name="auxiliary/logits")


def convolution(bottom, channels, size, stride, padding, name, data_format, share):
    """A convolution without bias, with this share of the channels, batch normalisation and ReLU."""
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
    axis = 1 if data_format == "channels_first" else 3
    return tf.nn.relu(
        tf.layers.batch_normalization(
            top, axis, momentum=0.9, epsilon=1e-3, training=True, name=name + "_norm"
        )
    )


def main():
    """Train on made-up images."""
    training.train_classifier(
        __doc__, SIZES, build_training_model, "classes", "width", "modules", "learning_rate"
    )


if __name__ == "__main__":
    main()
