"""A small image classifier in float32, as TensorFlow 1 code.

    python examples/simple_cnn.py --smoke
    graphmp convert examples/simple_cnn.py

One convolution, batch normalisation, pooling and two dense layers: the model of NVIDIA's talks on
mixed precision. The data are random. The CPU kernels of TensorFlow 1.15 don't support
channels-first convolutions: train there with --data_format=channels_last. Conversion works with
either.
"""

import argparse
import os

import numpy as np

os.environ.setdefault(
    "TF_USE_LEGACY_KERAS", "1"
)  # tf.layers needs Keras 2 on TensorFlow 2.16 and later
import tensorflow.compat.v1 as tf

LEARNING_RATE = (
    3e-4  # the hidden layer has tens of thousands of inputs: the loss is unstable with larger steps
)


def build_training_model(inputs, labels, nlabel, data_format="channels_first"):
    """Build the model, its loss and its training op.

    Args:
        inputs: float32 images, (batch, 3, height, width), or (batch, height, width, 3) for channels
            last.
        labels: int32 classes, (batch,).
        nlabel: the number of classes.
        data_format: channels_first or channels_last.

    Returns:
        `inputs`, `labels`, the mean loss, and the op that trains one step.
    """
    axis = 1 if data_format == "channels_first" else 3
    top = tf.layers.conv2d(
        inputs, 64, 7, padding="SAME", use_bias=False, data_format=data_format, name="conv"
    )
    top = tf.layers.batch_normalization(top, axis=axis, training=True, fused=True, name="norm")
    top = tf.layers.max_pooling2d(top, 2, 2, data_format=data_format, name="pool")
    top = tf.layers.flatten(top, name="flatten")
    top = tf.layers.dense(top, 128, activation=tf.nn.relu, name="hidden")
    logits = tf.layers.dense(top, nlabel, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.MomentumOptimizer(LEARNING_RATE, 0.9).minimize(loss)
    return inputs, labels, loss, train_op


def parse_flags():
    """The parsed command line; --smoke sets small sizes, which other flags override."""
    parser = argparse.ArgumentParser(description="Trains a small image classifier on random data.")
    parser.add_argument(
        "--smoke", action="store_true", help="a small model and a few steps, for a laptop"
    )
    parser.add_argument(
        "--data_format", choices=["channels_first", "channels_last"], default="channels_first"
    )
    parser.add_argument("--batch_size", type=int, help="images a step (default 32; smoke 8)")
    parser.add_argument("--steps", type=int, help="training steps (default 20; smoke 5)")
    flags = parser.parse_args()
    flags.image_size, flags.nlabel = (32, 20) if flags.smoke else (64, 100)
    flags.batch_size = flags.batch_size or (8 if flags.smoke else 32)
    flags.steps = flags.steps or (5 if flags.smoke else 20)
    return flags


def session_config():
    """A configuration for channels-first convolutions on the CPU of TensorFlow 2.

    1.15 lacks the option.
    """
    config = tf.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    if hasattr(rewrites, "cpu_layout_conversion"):
        rewrites.cpu_layout_conversion = rewrites.NCHW_TO_NHWC
    return config


def main():
    """Train on one batch of random images and print the loss of each step."""
    flags = parse_flags()
    if tf.__version__ >= "2":
        tf.disable_v2_behavior()
    tf.set_random_seed(1)
    size = flags.image_size
    shape = (3, size, size) if flags.data_format == "channels_first" else (size, size, 3)
    inputs = tf.placeholder(tf.float32, (None,) + shape, name="inputs")
    labels = tf.placeholder(tf.int32, (None,), name="labels")
    inputs, labels, loss, train_op = build_training_model(
        inputs, labels, flags.nlabel, flags.data_format
    )

    random = np.random.RandomState(1)
    images = random.uniform(-1, 1, (flags.batch_size,) + shape).astype(np.float32)
    classes = random.randint(0, flags.nlabel, flags.batch_size).astype(np.int32)
    with tf.Session(config=session_config()) as session:
        session.run(tf.global_variables_initializer())
        for step in range(flags.steps):
            value, _ = session.run([loss, train_op], {inputs: images, labels: classes})
            print("step %2d  loss %.4f" % (step + 1, value))


if __name__ == "__main__":
    main()
