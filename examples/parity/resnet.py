"""A residual network of 20 layers for handwritten digits.

It is the ResNet-20 of He et al. (2015, section 4.2: three stages of three blocks of two
convolutions, then an average and a dense layer) with half the channels, 8, 16 and 32, and a first
convolution of stride 2, to be affordable on a CPU.
"""

import data
import tensorflow.compat.v1 as tf

STEPS = 240
BATCH_SIZE = 50
LEARNING_RATE = 0.1
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
WIDTHS = (8, 16, 32)
BLOCKS = 3

MEASURE = "accuracy"
MARGIN = 1.5  # in percentage points, for the reason given in cnn.py


def build():
    """Build the graph. Return the loss, the train op, and the measure: accuracy in per cent."""
    images = tf.placeholder(tf.float32, [None, 28, 28, 1], name="images")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    training = tf.placeholder_with_default(False, [], name="training")
    top = tf.nn.relu(_convolution(images, WIDTHS[0], 2, training, "stem"))
    for stage, width in enumerate(WIDTHS):
        for block in range(BLOCKS):
            top = _block(
                top,
                width,
                2 if stage and not block else 1,
                training,
                "stage%d_block%d" % (stage, block),
            )
    logits = tf.layers.dense(tf.reduce_mean(top, axis=[1, 2]), 10, name="logits")
    cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    decay = tf.add_n(
        [
            tf.nn.l2_loss(variable)
            for variable in tf.trainable_variables()
            if "kernel" in variable.op.name
        ]
    )
    loss = cross_entropy + WEIGHT_DECAY * decay
    right = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels)
    step = tf.train.create_global_step()
    rate = tf.train.cosine_decay(LEARNING_RATE, step, STEPS)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.MomentumOptimizer(rate, MOMENTUM).minimize(loss, step)
    return loss, train_op, 100.0 * tf.reduce_mean(tf.cast(right, tf.float32))


def _block(bottom, width, stride, training, name):
    """Two convolutions with a shortcut, downsampled and padded if the shape changes."""
    top = tf.nn.relu(_convolution(bottom, width, stride, training, name + "_a"))
    top = _convolution(top, width, 1, training, name + "_b")
    if stride > 1:
        bottom = tf.layers.average_pooling2d(bottom, stride, stride, padding="same")
        bottom = tf.pad(bottom, [[0, 0], [0, 0], [0, 0], [0, width - bottom.shape[-1]]])
    return tf.nn.relu(top + bottom)


def _convolution(bottom, width, stride, training, name):
    top = tf.layers.conv2d(bottom, width, 3, stride, padding="same", use_bias=False, name=name)
    return tf.layers.batch_normalization(top, training=training, momentum=0.9, name=name + "_norm")


def batches(seed):
    """Endless training batches, by placeholder names."""
    return data.labelled_batches(BATCH_SIZE, seed)


validation = data.labelled_validation
