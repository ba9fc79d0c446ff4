"""One fully connected layer in float32, as TensorFlow 1 code: squared error, gradient descent.

    python examples/fully_connected.py --smoke
    graphmp convert examples/fully_connected.py
    graphmp run --compute_dtype=bfloat16 examples/fully_connected.py --smoke

64 samples of 1,024 random inputs and 512 random targets, the same in all of 500 steps: a minimal
case of the problems of mixed precision. Updates are small relative to the weights, the loss sums
32,768 squares, and its gradients are small because it is a mean. With the default learning rate the
loss falls by a few hundredths.
"""

import itertools

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (64, 64, "samples"),
    "steps": (500, 60, "training steps"),
    "inputs": (1024, 32, "numbers in a sample"),
    "outputs": (512, 16, "targets of a sample"),
    "learning_rate": (1e-3, 1.0, "of gradient descent"),
}


def build_training_model(samples, wanted, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        samples: float32, (batch, inputs).
        wanted: float32 targets, (batch, outputs).
        learning_rate: of gradient descent.

    Returns:
        `samples`, `wanted`, the loss, and the op that trains one step.
    """
    found = tf.layers.dense(samples, wanted.shape[1], name="layer")
    loss = tf.losses.mean_squared_error(wanted, found)
    optimizer = tf.train.GradientDescentOptimizer(learning_rate)
    return samples, wanted, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def batches(flags):
    """The same batch endlessly: samples and targets, random with mean 0 and variance 1."""
    random = np.random.RandomState(flags.seed)
    return itertools.repeat(
        tuple(
            random.randn(flags.batch_size, size).astype(np.float32)
            for size in (flags.inputs, flags.outputs)
        )
    )


def main():
    """Train on made-up numbers."""
    flags = training.start(__doc__, SIZES)
    samples = tf.placeholder(tf.float32, [None, flags.inputs], name="samples")
    wanted = tf.placeholder(tf.float32, [None, flags.outputs], name="wanted")
    build = training.precision(flags)(build_training_model)
    samples, wanted, loss, train_op = build(samples, wanted, flags.learning_rate)
    training.train(
        flags,
        {"loss": loss},
        train_op,
        (samples, wanted),
        batches(flags),
        flags.batch_size,
        "samples",
    )


if __name__ == "__main__":
    main()
