"""`tf.contrib.learn.datasets`: MNIST, from files that are there."""

from __future__ import annotations

from typing import Any

from graphmp.legacy import examples_mnist

__all__ = ["load_dataset", "load_mnist"]


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """A data set by its name.

    Raises:
        ValueError: for any but `mnist`.
    """
    if name != "mnist":
        raise ValueError("load_dataset(%r): of contrib's data sets only mnist is served" % name)
    return load_mnist()


def load_mnist(train_dir: str = "MNIST-data") -> Any:
    """MNIST's images as floats, and labels, to train, validate and test on."""
    return examples_mnist.read_data_sets(train_dir)
