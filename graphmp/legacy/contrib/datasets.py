"""`tf.data.Dataset` as `tf.contrib.data.Dataset`, with what `map` took in TensorFlow 1.2 to 1.4."""

from __future__ import annotations

import functools
from typing import Any, Optional

import tensorflow.compat.v1 as tf

__all__ = [
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "TFRecordDataset",
    "TextLineDataset",
]

Dataset = tf.data.Dataset
FixedLengthRecordDataset = tf.data.FixedLengthRecordDataset
Iterator = tf.data.Iterator
TFRecordDataset = tf.data.TFRecordDataset
TextLineDataset = tf.data.TextLineDataset


_MAP = Dataset.map


@functools.wraps(_MAP)
def _map(
    *args: Any,
    num_threads: Optional[int] = None,
    output_buffer_size: Optional[int] = None,
    **kwargs: Any,
) -> Any:
    """`Dataset.map`, also with `num_threads` and `output_buffer_size` in elements."""
    if num_threads is not None:
        kwargs["num_parallel_calls"] = num_threads
    mapped = _MAP(*args, **kwargs)
    return mapped if output_buffer_size is None else mapped.prefetch(output_buffer_size)


Dataset.map = _map
