"""Keras's CIFAR-10 network in float32, as TensorFlow 1 code: Keras layers and optimizer in a graph.

    python examples/keras_cifar10.py --smoke
    graphmp convert examples/keras_cifar10.py
    graphmp run --compute_dtype=bfloat16 examples/keras_cifar10.py --smoke

The network of Keras's example cifar10_cnn.py, with softmax or sigmoid outputs. Keras's own mixed
precision needs a float32 last layer to be specified; graphmp keeps the softmax or sigmoid in
float32 automatically. --data_dir takes the binary version of CIFAR-10
(https://www.cs.toronto.edu/~kriz/cifar.html, a label and 3,072 bytes of pixels per image); without
it the network learns 1,597 handwritten digits from the file digits.npz. After the last step it
classifies test images.
"""

import os

import numpy as np
import training  # before TensorFlow: see training.py
from parity.data import in_order, shuffled

# isort: split
import tensorflow.compat.v1 as tf

IMAGE_SIZE, CLASSES = 32, 10
SIZES = {
    "batch_size": (32, 16, "images a step"),
    "steps": (1000, 60, "training steps"),
    "width": (32, 8, "channels of the first convolution"),
    "learning_rate": (1e-4, 3e-3, "of RMSprop"),
    "final_activation": ("softmax", "softmax", "of the last layer", "softmax", "sigmoid"),
    "data_dir": ("", "", "folder of CIFAR-10's binary files, in place of the digits"),
}
TRAINING_FILES = ["data_batch_%d.bin" % number for number in range(1, 6)]
TEST_FILES = ["test_batch.bin"]
DIGITS = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "digits.npz"
)  # UCI's optical recognition of handwritten digits, the test set
TEST_DIGITS = 200
RECORD = 1 + 3 * IMAGE_SIZE * IMAGE_SIZE  # bytes: the label, then the red, green and blue pixels


def build_training_model(pixels, labels, width, learning_rate, final_activation):
    """Build the model, its loss and its training op.

    Args:
        pixels: uint8 images, (batch, 32, 32, 3).
        labels: int32 classes, (batch,).
        width: channels of the first convolution, 32 in Keras's example.
        learning_rate: of RMSprop.
        final_activation: softmax or sigmoid.

    Returns:
        `pixels`, `labels`, the loss, the op that trains one step, and which images are classified
        correctly.
    """
    model = network(width, final_activation)
    images = tf.cast(pixels, tf.float32) / 255
    probabilities = model(images, training=True)
    if final_activation == "softmax":
        losses = tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)
    else:
        losses = tf.keras.losses.binary_crossentropy(tf.one_hot(labels, CLASSES), probabilities)
    loss = tf.reduce_mean(losses)
    train_op = tf.group(
        tf.keras.optimizers.RMSprop(learning_rate).get_updates(loss, model.trainable_weights)
    )
    right = tf.equal(tf.argmax(model(images, training=False), 1, output_type=tf.int32), labels)
    return pixels, labels, loss, train_op, right


def network(width, final_activation):
    """The Keras model."""
    layers = tf.keras.layers
    blocks = []
    for channels in (width, 2 * width):
        blocks += [
            layers.Conv2D(channels, 3, padding="same", activation="relu"),
            layers.Conv2D(channels, 3, activation="relu"),
        ]
        blocks += [layers.MaxPooling2D(), layers.Dropout(0.25)]
    hidden = layers.Dense(16 * width, activation="relu")
    return tf.keras.Sequential(
        [
            *blocks,
            layers.Flatten(),
            hidden,
            layers.Dropout(0.5),
            layers.Dense(CLASSES, final_activation),
        ]
    )


def read(folder, names):
    """Images and labels of CIFAR-10's binary files: uint8 (number, 32, 32, 3), int32 (number,).

    Ends the program if they are not such files.
    """
    rows = np.concatenate([_records(os.path.join(folder, name)) for name in names])
    return rows[:, 1:].reshape(-1, 3, IMAGE_SIZE, IMAGE_SIZE).transpose(0, 2, 3, 1), rows[
        :, 0
    ].astype(np.int32)


def _records(path):
    if not os.path.isfile(path):
        training.refuse(
            "%s: there is no such file; --data_dir takes the folder with %s"
            % (path, ", ".join(TRAINING_FILES + TEST_FILES))
        )
    data = np.fromfile(path, np.uint8)
    if not data.size or data.size % RECORD:
        training.refuse(
            "%s: found %d bytes, accepted are records of %d: the file is truncated, or not "
            "CIFAR-10's" % (path, data.size, RECORD)
        )
    rows = data.reshape(-1, RECORD)
    if rows[:, 0].max() >= CLASSES:
        training.refuse(
            "%s: found label %d, accepted are 0 to %d: the file is not CIFAR-10's"
            % (path, rows[:, 0].max(), CLASSES - 1)
        )
    return rows


def digits():
    """The digits, as images of CIFAR-10's format.

    Their 8 x 8 pixels, from 0 to 16, count the ink in blocks of 4 x 4 pixels.
    """
    with np.load(DIGITS) as file:
        grey, labels = (file["images"] * 15.9).astype(np.uint8), file["labels"].astype(np.int32)
    return grey.repeat(4, 1).repeat(4, 2)[..., None].repeat(3, 3), labels


def pictures(folder, test):
    """Images and labels to train on, or to test with.

    They are CIFAR-10's if a folder is given, else the digits, the last of which are for the test.
    """
    if folder:
        return read(folder, TEST_FILES if test else TRAINING_FILES)
    part = slice(-TEST_DIGITS, None) if test else slice(-TEST_DIGITS)
    return tuple(array[part] for array in digits())


def batches(flags):
    """Endless batches of pixels and labels, in random order."""
    images, labels = pictures(flags.data_dir, test=False)
    if len(images) < flags.batch_size:
        training.refuse(
            "argument --batch_size: found %d, accepted is %d at most: so many images there are"
            % (flags.batch_size, len(images))
        )
    for chosen in shuffled(len(images), flags.batch_size, flags.seed):
        yield images[chosen], labels[chosen]


def main():
    """Train on CIFAR-10 or on digits, and test."""
    flags = training.start(__doc__, SIZES)
    pixels = tf.placeholder(tf.uint8, [None, IMAGE_SIZE, IMAGE_SIZE, 3], name="pixels")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    build = training.precision(flags)(build_training_model)
    *inputs, loss, train_op, right = build(
        pixels, labels, flags.width, flags.learning_rate, flags.final_activation
    )

    def test(session):
        images, answers = pictures(flags.data_dir, test=True)
        found = [
            session.run(right, dict(zip(inputs, (images[part], answers[part]))))
            for part in in_order(len(images), min(len(images), 100))
        ]
        print("test accuracy %.4f" % np.mean(found))

    training.train(
        flags, {"loss": loss}, train_op, inputs, batches(flags), flags.batch_size, finish=test
    )


if __name__ == "__main__":
    main()
