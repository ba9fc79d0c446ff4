"""Unscale, finite check and clip over a list of gradients: dense tensors, IndexedSlices or None."""

from __future__ import annotations

from typing import Any, List, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.building import own_scope


def unscale(scale: Any, gradients: Sequence[Any]) -> List[Any]:
    """Each gradient in float32 divided by a loss scale of `scales.py`; sparse ones stay sparse, None stays None."""
    return [_on_values(scale.unscale, gradient) for gradient in gradients]


def all_finite(gradients: Sequence[Any], scope: str) -> Any:
    """A scalar bool tensor: whether every value of every gradient is finite."""
    with own_scope(scope):
        flat, first = tf.constant([-1], name="flat"), tf.constant([0], name="first")
        checks = [tf.reduce_all(tf.reshape(_finite(values(g)), flat), first) for g in gradients if g is not None]
        return tf.reduce_all(tf.stack(checks), first, name="all_finite")


def largest(gradients: Sequence[Any]) -> Any:
    """A float32 scalar tensor: the largest absolute value in all of the gradients."""
    flat, first = tf.constant([-1], name="flat"), tf.constant([0], name="first")
    found = [tf.reduce_max(tf.abs(tf.reshape(values(g), flat)), first) for g in gradients if g is not None]
    return tf.reduce_max(tf.stack([tf.cast(value, tf.float32) for value in found] + [tf.constant(0.0)]), first)


def _finite(tensor: Any) -> Any:
    with tf.device(tensor.device):  # what is checked is large, what comes of it is one number
        return tf.is_finite(tensor)


def clip(gradients: Sequence[Any], clip_norm: float, scope: str) -> List[Any]:
    """Scales the gradients down so that their global norm is at most `clip_norm`; sparse ones count by their values."""
    with own_scope(scope):
        return list(tf.clip_by_global_norm(list(gradients), clip_norm, name="clip_by_global_norm")[0])


def values(gradient: Any) -> Any:
    """The dense tensor that holds a gradient's values."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _on_values(function: Any, gradient: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)
