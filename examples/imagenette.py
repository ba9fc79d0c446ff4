"""The Imagenette experiment in float32, as TensorFlow 1 code: two convolutions, batch norm, Adam.

    python examples/imagenette.py --smoke
    graphmp convert examples/imagenette.py
    graphmp run --compute_dtype=bfloat16 examples/imagenette.py --smoke
    graphmp bench examples/imagenette.py --batch_sizes=32,64,128,256,512

The last command compares the step times of float32 and mixed precision by batch size. Mixed
precision gains little here; README.md has the measurements of others and the reason. --data_dir
takes the folder imagenette2-320 (https://github.com/fastai/imagenette); without it the pictures are
made up. The pictures are resized once, into a memory-mapped file of uint8 in that folder: 1.9 GB
instead of 7.4 GB of float32, without loss of precision. The graph divides them by 255.
"""

import os
import pathlib
import sys
import zlib

import numpy as np
import training  # before TensorFlow: see training.py
from parity.data import shuffled
from rich.progress import track

# isort: split
import tensorflow.compat.v1 as tf

CLASSES = 10
PICTURES = 9469  # in an epoch of made-up pictures: as many as Imagenette's training set
SIZES = {
    "batch_size": (128, 16, "pictures a step"),
    "epochs": (20, 20, "how often each picture is seen"),
    "steps": (100000, 30, "largest number of training steps"),
    "image_size": (256, 32, "height and width of the pictures"),
    "width": (64, 8, "channels of the first convolution, half of the second's"),
    "learning_rate": (1e-3, 1e-2, "of Adam"),
    "data_dir": ("", "", "folder imagenette2-320"),
}


def build_training_model(pixels, labels, width, learning_rate):
    """Build the model, its loss and its training op.

    Args:
        pixels: uint8 pictures, (batch, height, width, 3).
        labels: int32 classes, (batch,).
        width: channels of the first convolution.
        learning_rate: of Adam.

    Returns:
        `pixels`, `labels`, the loss, and the op that trains one step.
    """
    top = tf.cast(pixels, tf.float32) / 255
    for number, (channels, size) in enumerate(((width, 7), (2 * width, 11))):
        name = "conv%d" % (number + 1)
        top = tf.layers.conv2d(top, channels, size, 2, "same", activation=tf.nn.relu, name=name)
        top = tf.layers.batch_normalization(top, momentum=0.9, training=True, name=name + "_norm")
    top = tf.reduce_mean(top, axis=[1, 2])
    logits = tf.layers.dense(top, CLASSES, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)  # softmax in float32
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.AdamOptimizer(learning_rate).minimize(
            loss, tf.train.get_or_create_global_step()
        )
    return pixels, labels, loss, train_op


def read(folder, size):
    """Pictures and classes of the folder `train`, which has one folder per class.

    Returns:
        The pictures, uint8 (number, size, size, 3), memory-mapped, and the classes, int32
        (number,).
    """
    root = pathlib.Path(folder, "train")
    names = sorted(path.relative_to(root).as_posix() for path in root.glob("*/*.JPEG"))
    classes = sorted({name.partition("/")[0] for name in names})
    if not names or len(classes) > CLASSES:
        found = "found %d pictures in %d folders" % (len(names), len(classes))
        training.refuse(
            "--data_dir=%s: %s, accepted is a folder with train/CLASS/NAME.JPEG, %d classes at most"
            % (folder, found, CLASSES)
        )
    cache = root.parent / ("train_%d_%08x.npy" % (size, zlib.crc32("\n".join(names).encode())))
    if not cache.exists():
        _resize([root / name for name in names], size, cache)
    return np.load(str(cache), mmap_mode="r"), np.array(
        [classes.index(name.partition("/")[0]) for name in names], np.int32
    )


def _resize(paths, size, cache):
    """Write the resized pictures, first under a temporary name."""
    temporary = cache.with_suffix(".part")
    try:
        pictures = np.lib.format.open_memmap(
            str(temporary), "w+", np.uint8, (len(paths), size, size, 3)
        )
        for number, picture in enumerate(_decoded(paths, size)):
            pictures[number] = picture
        pictures.flush()
        os.replace(str(temporary), str(cache))
    except OSError as error:
        training.refuse(
            "%s: %s; resized pictures are written beside the folder train" % (cache, error.strerror)
        )
    finally:
        if temporary.exists():
            temporary.unlink()


def _decoded(paths, size):
    with tf.Graph().as_default(), tf.Session() as session:
        data = tf.placeholder(tf.string, [])
        resized = tf.image.resize_bilinear(
            tf.image.decode_jpeg(data, channels=3)[None], [size, size]
        )[0]
        picture = tf.cast(tf.round(resized), tf.uint8)
        for path in track(paths, "resizing", transient=True) if sys.stdout.isatty() else paths:
            try:
                yield session.run(picture, {data: path.read_bytes()})
            except tf.errors.InvalidArgumentError:
                training.refuse(
                    "%s: found %d bytes that are no JPEG picture, or not all of one"
                    % (path, path.stat().st_size)
                )


def batches(flags, pictures, classes):
    """Endless batches of pixels and labels, in random order."""
    for chosen in shuffled(len(pictures), flags.batch_size, flags.seed):
        yield pictures[np.sort(chosen)], classes[np.sort(chosen)]


def made_up(flags):
    """Endless batches of pixels and labels."""
    flags.classes = CLASSES
    for images, labels in training.image_batches(flags):
        yield ((images + 1.5) * 85).astype(np.uint8), labels


def main():
    """Train on Imagenette, or on made-up pictures."""
    flags = training.start(__doc__, SIZES)
    pictures, classes = (
        read(flags.data_dir, flags.image_size) if flags.data_dir else (range(PICTURES), None)
    )
    if len(pictures) < flags.batch_size:
        training.refuse(
            "argument --batch_size: found %d, accepted is %d at most: so many pictures there are"
            % (flags.batch_size, len(pictures))
        )
    flags.steps = min(flags.steps, flags.epochs * len(pictures) // flags.batch_size)
    pixels = tf.placeholder(tf.uint8, [None, flags.image_size, flags.image_size, 3], name="pixels")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    build = training.precision(flags)(build_training_model)
    *inputs, loss, train_op = build(pixels, labels, flags.width, flags.learning_rate)
    source = batches(flags, pictures, classes) if flags.data_dir else made_up(flags)
    training.train(flags, {"loss": loss}, train_op, inputs, source, flags.batch_size)


if __name__ == "__main__":
    main()
