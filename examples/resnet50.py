"""ResNet-50 in float32, as TensorFlow 1 code: bottleneck blocks, batch norm, weight decay.

    python examples/resnet50.py --smoke
    graphmp convert examples/resnet50.py
    graphmp run --compute_dtype=bfloat16 examples/resnet50.py --smoke

The network of He et al. (2015, arXiv:1512.03385, table 1) in version 1.5, in which the 3x3
convolution of a block does the downsampling; the last normalisation of a block starts at 0, as in
Goyal et al. (2017, arXiv:1706.02677). The optimizer is momentum, and the weight decay is on the
kernels only. --depth=101 and 152 give the deeper networks of the table. The CPU kernels of
TensorFlow 1.15 don't support channels-first convolutions.
"""

import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

BLOCKS = {
    26: (2, 2, 2, 2),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}  # blocks of each stage, by depth
SIZES = dict(
    training.IMAGENET,
    depth=(50, 26, "convolutions and dense layers, one behind the other", *BLOCKS),
    width=(64, 8, "channels of the first convolution"),
    learning_rate=(0.025, 0.005, "of the momentum optimizer"),
)
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4


def build_training_model(images, labels, classes, depth, width, learning_rate, data_format):
    """Build the model, its loss and its training op.

    Args:
        images: float32, (batch, height, width, 3), or (batch, 3, height, width) for channels first.
        labels: int32 classes, (batch,).
        classes: the number of classes.
        depth: the depth of the network, a key of BLOCKS.
        width: channels of the first convolution, 64 in the paper.
        learning_rate: of the momentum optimizer.
        data_format: channels_last or channels_first.

    Returns:
        `images`, `labels`, the loss, and the op that trains one step.
    """
    top = convolution(images, width, 7, 2, data_format, "stem")
    top = tf.layers.max_pooling2d(tf.nn.relu(top), 3, 2, padding="same", data_format=data_format)
    for stage, blocks in enumerate(BLOCKS[depth]):
        for block in range(blocks):
            with tf.variable_scope("stage%d_block%d" % (stage + 1, block + 1)):
                top = bottleneck(
                    top,
                    width << stage,
                    2 if stage and not block else 1,
                    data_format,
                    project=not block,
                )
    top = tf.reduce_mean(top, axis=[2, 3] if data_format == "channels_first" else [1, 2])
    logits = tf.layers.dense(top, classes, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits) + training.weight_decay(
        WEIGHT_DECAY
    )
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.MomentumOptimizer(learning_rate, MOMENTUM)
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return images, labels, loss, train_op


def bottleneck(bottom, channels, stride, data_format, project):
    """A block of 1x1, 3x3 and 1x1 convolutions, the last with four times the channels.

    The input is added to the result, projected if the shape changes.
    """
    top = tf.nn.relu(convolution(bottom, channels, 1, 1, data_format, "reduce"))
    top = tf.nn.relu(convolution(top, channels, 3, stride, data_format, "middle"))
    top = convolution(top, 4 * channels, 1, 1, data_format, "expand", gamma=0.0)
    if project:
        bottom = convolution(bottom, 4 * channels, 1, stride, data_format, "project")
    return tf.nn.relu(top + bottom)


def convolution(bottom, channels, size, stride, data_format, name, gamma=1.0):
    """A convolution without bias, then batch normalisation with the initial scale gamma."""
    he = tf.variance_scaling_initializer(2.0, mode="fan_out")
    top = tf.layers.conv2d(
        bottom,
        channels,
        size,
        stride,
        "same",
        data_format,
        use_bias=False,
        kernel_initializer=he,
        name=name,
    )
    axis = 1 if data_format == "channels_first" else 3
    scale = tf.constant_initializer(gamma)
    return tf.layers.batch_normalization(
        top,
        axis,
        momentum=0.9,
        epsilon=1e-5,
        gamma_initializer=scale,
        training=True,
        name=name + "_norm",
    )


def main():
    """Train on made-up images."""
    training.train_classifier(
        __doc__, SIZES, build_training_model, "classes", "depth", "width", "learning_rate"
    )


if __name__ == "__main__":
    main()
