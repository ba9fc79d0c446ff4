"""`tf.contrib.deprecated`: summaries whose tags are given, of TensorFlow before 1.0."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf

__all__ = [
    "audio_summary",
    "histogram_summary",
    "image_summary",
    "merge_all_summaries",
    "merge_summary",
    "scalar_summary",
]

_Collections = Optional[Sequence[str]]


def scalar_summary(
    tags: Any, values: Any, collections: _Collections = None, name: Optional[str] = None
) -> tf.Tensor:
    """A summary of numbers, with a tag for each."""
    with tf.name_scope(name, "ScalarSummary", [tags, values]) as scope:
        made = tf.raw_ops.ScalarSummary(tags=tags, values=values, name=scope)
    return _collected(made, collections)


def histogram_summary(
    tag: Any, values: Any, collections: _Collections = None, name: Optional[str] = None
) -> tf.Tensor:
    """A summary of the distribution of values."""
    with tf.name_scope(name, "HistogramSummary", [tag, values]) as scope:
        made = tf.raw_ops.HistogramSummary(tag=tag, values=values, name=scope)
    return _collected(made, collections)


def image_summary(
    tag: Any,
    tensor: Any,
    max_images: int = 3,
    collections: _Collections = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """A summary of the first images of a batch."""
    with tf.name_scope(name, "ImageSummary", [tag, tensor]) as scope:
        made = tf.raw_ops.ImageSummary(tag=tag, tensor=tensor, max_images=max_images, name=scope)
    return _collected(made, collections)


def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: _Collections = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """A summary of the first sounds of a batch."""
    with tf.name_scope(name, "AudioSummary", [tag, tensor]) as scope:
        rate = tf.convert_to_tensor(sample_rate, tf.float32)
        made = tf.raw_ops.AudioSummaryV2(
            tag=tag, tensor=tensor, sample_rate=rate, max_outputs=max_outputs, name=scope
        )
    return _collected(made, collections)


def merge_summary(
    inputs: List[Any], collections: _Collections = None, name: Optional[str] = None
) -> tf.Tensor:
    """The summaries of several, as one."""
    return tf.summary.merge(inputs, collections, name)


def merge_all_summaries(key: str = tf.GraphKeys.SUMMARIES) -> Optional[tf.Tensor]:
    """All summaries of a collection as one; None without any."""
    return tf.summary.merge_all(key)


def _collected(summary: tf.Tensor, collections: _Collections) -> tf.Tensor:
    for key in [tf.GraphKeys.SUMMARIES] if collections is None else collections:
        tf.add_to_collection(key, summary)
    return summary
