"""Unscale, finite check and clip over a list of gradients: dense tensors, IndexedSlices or None."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope


def unscale(
    scale: Any, gradients: Sequence[Any], readers: Optional[Sequence[Any]] = None
) -> List[Any]:
    """Divide each gradient by a loss scale of `scales.py`, in float32.

    Sparse gradients stay sparse, None stays None.

    Args:
        scale: the scale.
        gradients: results of tf.gradients.
        readers: the variable of each gradient. The division runs on its device, so that the
            gradient is sent there in half precision.
    """
    devices = [""] * len(gradients) if readers is None else [reader.device for reader in readers]
    return [
        _on_values(_on(device, scale.unscale), gradient)
        for gradient, device in zip(gradients, devices)
    ]


def all_finite(gradients: Sequence[Any], scope: str, device: str = "") -> Any:
    """Whether every value of every gradient is finite.

    A scalar bool tensor, on `device` if given.
    """
    with own_scope(scope), tf.device(device):
        flat, first = tf.constant([-1], name="flat"), tf.constant([0], name="first")
        checks = [
            _reduced(values(g), lambda g: tf.reduce_all(tf.reshape(tf.is_finite(g), flat), first))
            for g in gradients
            if g is not None
        ]
        return tf.reduce_all(tf.stack(checks), first, name="all_finite")


def largest(gradients: Sequence[Any]) -> Any:
    """The largest absolute value in all gradients: a float32 scalar tensor."""
    flat, first = tf.constant([-1], name="flat"), tf.constant([0], name="first")
    found = [
        _reduced(values(g), lambda g: tf.reduce_max(tf.abs(tf.reshape(g, flat)), first))
        for g in gradients
        if g is not None
    ]
    return tf.reduce_max(
        tf.stack([tf.cast(value, tf.float32) for value in found] + [tf.constant(0.0)]), first
    )


def _reduced(tensor: Any, function: Callable[[Any], Any]) -> Any:
    """Reduce on the tensor's device: the tensor is large, and only one number leaves the device."""
    return _on(tensor.device, function)(tensor)


def _on(device: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that makes its ops on a device; empty stands for the caller's device."""

    def placed(tensor: Any) -> Any:
        with tf.device(device):
            return function(tensor)

    return placed


def clip(gradients: Sequence[Any], clip_norm: float, scope: str) -> List[Any]:
    """Scale the gradients down so that their global norm is at most `clip_norm`.

    Sparse gradients count by their values. For gradients of several dtypes the norm is added up in
    float64, and each gradient is scaled in its own dtype.
    """
    given = [g for g in gradients if g is not None]
    dtypes = list(dict.fromkeys(g.dtype for g in given))
    with own_scope(scope):
        if len(dtypes) < 2:
            return list(
                tf.clip_by_global_norm(list(gradients), clip_norm, name="clip_by_global_norm")[0]
            )
        with tf.name_scope("clip_by_global_norm"):
            norms = [
                tf.cast(tf.global_norm([g for g in given if g.dtype == dtype]), tf.float64)
                for dtype in dtypes
            ]
            norm = tf.global_norm(norms)
        clipped = list(gradients)
        for dtype in dtypes:
            places = [
                place for place, g in enumerate(gradients) if g is not None and g.dtype == dtype
            ]
            found, _ = tf.clip_by_global_norm(
                [gradients[place] for place in places],
                clip_norm,
                tf.cast(norm, dtype),
                name="clip_by_global_norm",
            )
            for place, gradient in zip(places, found):
                clipped[place] = gradient
        return clipped


def values(gradient: Any) -> Any:
    """The dense tensor that holds a gradient's values."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _on_values(function: Any, gradient: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)
