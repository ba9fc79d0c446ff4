"""Whether two constants have the same values, in any protobuf representation."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.compare.values import array_text, tensor_text
from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.values import array


def tensor_change(before: Any, after: Any) -> Optional[Tuple[str, str]]:
    """Both values, abbreviated, if they differ, else None.

    A value that was only rounded to another floating-point dtype hasn't changed (the dtype has),
    unless rounding made a finite number infinite or a nonzero one zero. Integers may not be
    rounded.

    Args:
        before: a TensorProto.
        after: a TensorProto.
    """
    if serialize(before) == serialize(after):
        return None
    old, new = array(before), array(after)
    if old is None or new is None:
        return tensor_text(before), tensor_text(after)
    if old.shape != new.shape:
        return array_text(old, 0), array_text(new, 0)
    differs = _differs(old.reshape(-1), new.reshape(-1), before.dtype, after.dtype)
    if not differs.any():
        return None
    first = int(np.argmax(differs))
    return array_text(old, first), array_text(new, first)


def _differs(old: np.ndarray, new: np.ndarray, old_dtype: int, new_dtype: int) -> np.ndarray:
    """Whether each element differs; both arrays are flat and of equal length."""
    if old_dtype == new_dtype:
        return _bits_differ(old, new)
    if not (tf.as_dtype(old_dtype).is_floating and tf.as_dtype(new_dtype).is_floating):
        return np.asarray(old.astype(object) != new.astype(object))
    with np.errstate(all="ignore"):
        rounded = _bits_differ(old.astype(new.dtype), new)
        wide_old, wide_new = old.astype(np.float64), new.astype(np.float64)
    return (
        rounded
        | (np.isfinite(wide_old) != np.isfinite(wide_new))
        | ((wide_old == 0) != (wide_new == 0))
    )


def _bits_differ(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Compare bit patterns: NaN equals itself, and 0 is not -0."""
    if old.dtype == object:
        return np.asarray(old != new)
    width = old.dtype.itemsize
    bits = [
        np.ascontiguousarray(array).view(np.uint8).reshape(len(array), width)
        for array in (old, new)
    ]
    return np.asarray((bits[0] != bits[1]).any(axis=1))
