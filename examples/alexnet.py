"""AlexNet in float32, as TensorFlow 1 code: dropout, momentum, weight decay of the kernels.

    python examples/alexnet.py --smoke
    graphmp convert examples/alexnet.py
    graphmp run --compute_dtype=bfloat16 examples/alexnet.py --smoke

The network of Krizhevsky et al. (2012), five convolutions with biases and large dense layers, in
the version for one GPU of Krizhevsky (2014, arXiv:1404.5997): no local response normalisation and
no groups. The initial values are He's. The CPU kernels of TensorFlow 1.15 don't support
channels-first convolutions.
"""

import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = dict(
    training.IMAGENET,
    batch_size=(128, 16, "images a step"),
    steps=(100, 60, "training steps"),
    image_size=(224, 64, "height and width of the images, 64 at least"),
    width=(64, 16, "channels of the first convolution"),
    learning_rate=(0.01, 0.003, "of the momentum optimizer"),
)
CONVOLUTIONS = (  # channels, size and stride, and whether pooling follows
    (64, 11, 4, True),
    (192, 5, 1, True),
    (384, 3, 1, False),
    (256, 3, 1, False),
    (256, 3, 1, True),
)
HIDDEN = 64  # neurons of the dense layers, in multiples of the width
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
DROPOUT = 0.5


def build_training_model(images, labels, classes, width, learning_rate, data_format):
    """Build the model, its loss and its training op.

    Args:
        images: float32, (batch, height, width, 3), or (batch, 3, height, width) for channels first;
            sides of at least 64.
        labels: int32 classes, (batch,).
        classes: the number of classes.
        width: channels of the first convolution, 64 in the paper.
        learning_rate: of the momentum optimizer.
        data_format: channels_last or channels_first.

    Returns:
        `images`, `labels`, the loss, and the op that trains one step.
    """
    he = tf.variance_scaling_initializer(2.0)
    top = images
    for number, (channels, size, stride, pooling) in enumerate(CONVOLUTIONS):
        name = "conv%d" % (number + 1)
        channels = channels * width // 64
        top = tf.layers.conv2d(
            top,
            channels,
            size,
            stride,
            "same",
            data_format,
            activation=tf.nn.relu,
            kernel_initializer=he,
            name=name,
        )
        if pooling:
            top = tf.layers.max_pooling2d(top, 3, 2, data_format=data_format)
    top = tf.layers.flatten(top)
    for name in ("fc6", "fc7"):
        top = tf.layers.dropout(top, DROPOUT, training=True)
        top = tf.layers.dense(top, HIDDEN * width, tf.nn.relu, kernel_initializer=he, name=name)
    logits = tf.layers.dense(
        top, classes, kernel_initializer=tf.random_normal_initializer(stddev=0.01), name="fc8"
    )
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits) + training.weight_decay(
        WEIGHT_DECAY
    )
    optimizer = tf.train.MomentumOptimizer(learning_rate, MOMENTUM)
    return images, labels, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def main():
    """Train on made-up images."""
    training.train_classifier(
        __doc__, SIZES, build_training_model, "classes", "width", "learning_rate"
    )


if __name__ == "__main__":
    main()
