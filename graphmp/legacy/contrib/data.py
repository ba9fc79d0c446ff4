"""Functions of `tf.contrib.data` that `tf.data.experimental` lacks: now methods of Dataset."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf

__all__ = ["batch_and_drop_remainder", "padded_batch_and_drop_remainder", "sloppy_interleave"]

Transformation = Callable[[tf.data.Dataset], tf.data.Dataset]


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """For `Dataset.apply`: batches of equal size."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """For `Dataset.apply`: padded batches of equal size."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def sloppy_interleave(
    map_func: Callable[..., tf.data.Dataset], cycle_length: int, block_length: int = 1
) -> Transformation:
    """For `Dataset.apply`: `tf.data.experimental.parallel_interleave` in no particular order."""
    return tf.data.experimental.parallel_interleave(
        map_func, cycle_length, block_length, sloppy=True
    )
