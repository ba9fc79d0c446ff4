"""Unscale, finite check and clip over a list of gradients: dense tensors, IndexedSlices or None."""

from __future__ import annotations

import collections
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope

SMALL = 2048  # elements: several such tensors are summed sooner as one (CPU, 1.15.5 and 2.21)


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
        flat, first = _flat()
        flags = [
            _reduced(t, lambda t: _all(tf.reshape(tf.is_finite(t), flat), first))
            for t in _tensors(gradients)
        ]
        return tf.reduce_all(tf.stack(flags), first, name="all_finite")


def is_finite(tensor: Any, scope: str) -> Any:
    """Whether every value of one tensor is finite: a scalar bool tensor."""
    with own_scope(scope):
        flat, first = _flat()
        return _all(tf.reshape(tf.is_finite(tensor), flat), first)


def all_finite_by_sums(
    gradients: Sequence[Any],
    scope: str,
    device: str = "",
    sizes: Optional[Sequence[Optional[int]]] = None,
) -> Any:
    """The same flag, by one sum of each gradient if the sums are finite.

    Small gradients on one device have one sum and one test. `sizes` are the numbers of elements of
    the gradients that aren't None, None where unknown; without `sizes` those that the graph knows.

    A sum of values of which one isn't finite isn't finite. Only if some sum isn't, which may also
    be an overflow, each value is tested: in other steps these tests are dead. A sum takes one read
    of a gradient; a test of each value also writes and reads as many flags. Gradients of half
    precision, and of several dtypes, have no sums.
    """
    tensors = _tensors(gradients)
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) != 1 or not dtypes <= {tf.float32, tf.float64}:
        return all_finite(gradients, scope, device)
    with own_scope(scope), tf.device(device):
        flat, first = _flat()
        known = sizes or [tensor.shape.num_elements() for tensor in tensors]
        rows = list(_joined([_reduced(t, lambda t: tf.reshape(t, flat)) for t in tensors], known))
        sums = [_reduced(row, lambda row: tf.reduce_sum(row, first)) for row in rows]
        finite = tf.is_finite(tf.raw_ops.AddN(inputs=sums), name="finite_sums")
        doubted, sure = tf.raw_ops.Switch(data=finite, pred=finite, name="finite_sums/switch")
        with tf.control_dependencies([tf.identity(doubted, name="finite_sums/doubted")]):
            flags = [_reduced(row, lambda row: _all(tf.is_finite(row), first)) for row in rows]
        tested = tf.reduce_all(tf.stack(flags), first, name="finite_tests")
        return tf.raw_ops.Merge(inputs=[tested, sure], name="all_finite").output


def _joined(rows: Sequence[Any], sizes: Sequence[Optional[int]]) -> Iterator[Any]:
    """The rows, the small ones of a device as one."""
    small: Dict[str, List[Any]] = collections.defaultdict(list)
    for row, size in zip(rows, sizes):
        if size is None or size > SMALL:
            yield row
        else:
            small[row.device].append(row)
    for device, each in small.items():
        with tf.device(device):
            yield each[0] if len(each) == 1 else tf.concat(each, 0, name="small")


def _tensors(gradients: Sequence[Any]) -> List[Any]:
    return [values(gradient) for gradient in gradients if gradient is not None]


def _flat() -> Sequence[Any]:
    """The shape [-1] and the axis [0]."""
    return tf.constant([-1], name="flat"), tf.constant([0], name="first")


def _all(row: Any, first: Any) -> Any:
    """The conjunction of a row; thousands of gradients make `reduce_all`'s own time count."""
    return tf.raw_ops.All(input=row, axis=first)


def largest(gradients: Sequence[Any]) -> Any:
    """The largest absolute value in all gradients: a float32 scalar tensor."""
    flat, first = _flat()
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
