"""Samples of two distributions, with the random operations of contrib."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

__all__: List[str] = []


def bernoulli_sample(
    probs: Any = None,
    logits: Any = None,
    dtype: Any = tf.int32,
    sample_shape: Any = (),
    seed: Optional[int] = None,
) -> tf.Tensor:
    """Zeros and ones, of shape [*sample_shape, *probabilities]."""
    if (probs is None) == (logits is None):
        raise ValueError("Must pass either probs or logits, and not both.")
    probs = tf.convert_to_tensor(probs) if logits is None else tf.sigmoid(logits)
    shape = tf.concat([_shape(sample_shape), tf.shape(probs)], 0)
    return tf.cast(tf.less(tf.random_uniform(shape, dtype=probs.dtype, seed=seed), probs), dtype)


def categorical_sample(
    logits: Any, dtype: Any = tf.int32, sample_shape: Any = (), seed: Optional[int] = None
) -> tf.Tensor:
    """Classes, of shape [*sample_shape, *batch], from logits of shape [*batch, classes]."""
    logits = tf.convert_to_tensor(logits, name="logits")
    batch, shape = tf.shape(logits)[:-1], _shape(sample_shape)
    rows = tf.reshape(logits, [-1, tf.shape(logits)[-1]])
    drawn = tf.multinomial(rows, tf.reduce_prod(shape), seed, output_dtype=dtype)
    result = tf.reshape(tf.transpose(drawn), tf.concat([shape, batch], 0))
    known = tf.get_static_value(shape)
    result.set_shape(tf.TensorShape(known).concatenate(logits.shape[:-1]))
    return result


def _shape(shape: Any) -> tf.Tensor:
    return tf.reshape(tf.cast(shape, tf.int32), [-1])
