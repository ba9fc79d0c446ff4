"""TensorFlow 1's `tensorflow.examples.tutorials.mnist.input_data`; nothing is downloaded.

Files are MNIST's own, in the IDX format of http://yann.lecun.com/exdb/mnist/, compressed or not.
"""

from __future__ import annotations

import gzip
import pathlib
import struct
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CLASSES = 10


class DataSet:
    """Images and labels in batches, shuffled in each epoch.

    Attributes:
        images: [images, 784] or [images, 28, 28, 1], float32 in [0, 1] or uint8.
        labels: [images], or [images, 10] one-hot.
        epochs_completed: the number of passes over all images.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, seed: Optional[int] = None):
        self.images = images
        self.labels = labels
        self.epochs_completed = 0
        self._next = 0
        self._random = np.random.RandomState(seed)

    @property
    def num_examples(self) -> int:
        """The number of images."""
        return len(self.images)

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> Tuple[np.ndarray, np.ndarray]:
        """The next images and labels.

        An epoch's remainder begins the batch that ends in the next one.
        """
        if self._next == 0 and self.epochs_completed == 0 and shuffle:
            self._shuffle()
        end = self._next + batch_size
        images, labels = self.images[self._next : end], self.labels[self._next : end]
        if end <= self.num_examples:
            self._next = end
            return images, labels
        self.epochs_completed += 1
        if shuffle:
            self._shuffle()
        self._next = end - self.num_examples
        return np.concatenate([images, self.images[: self._next]]), np.concatenate(
            [labels, self.labels[: self._next]]
        )

    def _shuffle(self) -> None:
        order = self._random.permutation(self.num_examples)
        self.images, self.labels = self.images[order], self.labels[order]


class Datasets(NamedTuple):
    """The three parts of MNIST."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: Optional[int] = None,
    source_url: str = "",
) -> Datasets:
    """Read MNIST from a folder.

    Args:
        train_dir: the folder with the four files.
        fake_data: not supported.
        one_hot: labels as [images, 10].
        dtype: float32 scales pixels to [0, 1], uint8 doesn't.
        reshape: images as rows of 784.
        validation_size: the number of training images to set aside.
        seed: of the shuffling.
        source_url: not used.

    Raises:
        FileNotFoundError: naming the missing file and what to put there.
        ValueError: for a file that is not in the IDX format.
    """
    parts = [_read(pathlib.Path(train_dir), name) for name in FILES]
    images = [_pictures(part, tf.as_dtype(dtype), reshape) for part in parts[::2]]
    labels = [np.eye(CLASSES)[part] if one_hot else part for part in parts[1::2]]
    split = validation_size
    train, validation = (
        (images[0][split:], labels[0][split:]),
        (images[0][:split], labels[0][:split]),
    )
    return Datasets(
        *(
            DataSet(pictures, known, seed)
            for pictures, known in (train, validation, (images[1], labels[1]))
        )
    )


def _pictures(array: np.ndarray, dtype: Any, reshape: bool) -> np.ndarray:
    shaped = array.reshape(len(array), -1) if reshape else array[..., np.newaxis]
    return shaped.astype(np.float32) / 255.0 if dtype == tf.float32 else shaped


def _read(folder: pathlib.Path, name: str) -> np.ndarray:
    found = next((path for path in (folder / (name + ".gz"), folder / name) if path.exists()), None)
    if found is None:
        text = "%s: no such file, and nothing is downloaded; put MNIST's four files there: %s"
        raise FileNotFoundError(
            text % (folder / (name + ".gz"), ", ".join(each + ".gz" for each in FILES))
        )
    data = gzip.decompress(found.read_bytes()) if found.suffix == ".gz" else found.read_bytes()
    rank = 3 if "idx3" in name else 1
    magic, *sizes = struct.unpack(">%dI" % (1 + rank), data[: 4 * (1 + rank)])
    if magic != 0x0800 + rank:
        raise ValueError(
            "%s: not in the IDX format (magic number %#x, accepted is %#x)"
            % (found, magic, 0x0800 + rank)
        )
    return np.frombuffer(data, np.uint8, offset=4 * (1 + rank)).reshape(sizes)
