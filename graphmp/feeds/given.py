"""Given arrays for tensors: matched by name, checked against dtype and shape."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.feeds.wanted import Wanted, described

_MOST_NAMES = 12
# By the kind of the tensor's dtype: the kinds of arrays that it takes, and in words.
_TAKES = {
    "f": ("fiub", "numbers"),
    "c": ("cfiub", "numbers"),
    "i": ("iub", "integers"),
    "u": ("iub", "integers"),
    "b": ("b", "bools"),
    "O": ("SUO", "strings"),
}


def pick(given: Mapping[Any, Any], wanted: Sequence[Wanted], label: str) -> Dict[str, Any]:
    """The value given for each wanted tensor, by the tensor's name. Other names are ignored.

    Raises:
        GraphmpError: GMP002 for tensors without a value, all of them named, and for one with two
            values.
    """
    found: Dict[str, Any] = {}
    for tensor in wanted:
        keys = [
            key
            for key in given
            if key == tensor.name or (key == tensor.node and tensor.name.endswith(":0"))
        ]
        if len(keys) > 1:
            raise GraphmpError(
                "GMP002",
                "%s: %s are the same tensor; give one of them"
                % (label, " and ".join(map(str, keys))),
            )
        if keys:
            found[tensor.name] = given[keys[0]]
    missing = [tensor.asked for tensor in wanted if tensor.name not in found]
    if missing:
        raise GraphmpError(
            "GMP002",
            "%s: nothing for %s; found are %s" % (label, ", ".join(missing), _names(given)),
        )
    return found


def check_values(array: np.ndarray, tensor: Wanted, label: str) -> None:
    """Refuse an array whose values the tensor's dtype can't hold.

    Raises:
        GraphmpError: GMP002.
    """
    kinds, words = _TAKES[_kind(tensor.dtype)]
    if _array_kind(array) not in kinds:
        raise refused(label, tensor, array, words)
    if (
        tensor.dtype.is_integer
        and array.size
        and not (tensor.dtype.min <= array.min() and array.max() <= tensor.dtype.max)
    ):
        found = "%s from %s to %s" % (array.dtype, array.min(), array.max())
        raise GraphmpError(
            "GMP002",
            "%s: %s: found %s; accepted are %s to %s"
            % (label, tensor, found, tensor.dtype.min, tensor.dtype.max),
        )


def converted(array: np.ndarray, tensor: Wanted) -> np.ndarray:
    """An array in the tensor's dtype."""
    with np.errstate(all="ignore"):  # what is too large becomes infinite, as in the graph
        return array.astype(tensor.dtype.as_numpy_dtype, copy=False)


def fits(found: Sequence[int], shape: Optional[Sequence[Optional[int]]]) -> bool:
    """Whether an array's shape fits a static shape."""
    return shape is None or (
        len(found) == len(shape) and all(b is None or a == b for a, b in zip(found, shape))
    )


def refused(label: str, tensor: Wanted, array: np.ndarray, accepted: str) -> GraphmpError:
    """The error for an array that a tensor doesn't take; `accepted` says in words what it takes."""
    return GraphmpError(
        "GMP002",
        "%s: %s: found %s; accepted are %s"
        % (label, tensor, described(str(array.dtype), array.shape), accepted),
    )


def _kind(dtype: tf.DType) -> str:
    """NumPy's letter; bfloat16 counts as a number, and strings as objects."""
    return "f" if dtype.is_floating else str(np.dtype(dtype.as_numpy_dtype).kind)


def _array_kind(array: np.ndarray) -> str:
    """NumPy's letter; half-precision types of other packages count as numbers.

    Objects count as strings only if all are.
    """
    if array.dtype.name == "bfloat16":
        return "f"
    if array.dtype.kind == "O" and not all(
        isinstance(item, (str, bytes)) for item in array.ravel()
    ):
        return "mixed"
    return str(array.dtype.kind)


def _names(given: Mapping[Any, Any]) -> str:
    names: List[str] = sorted(map(str, given))
    shown = ", ".join(names[:_MOST_NAMES]) or "no names"
    return shown + (", ... (%d)" % len(names) if len(names) > _MOST_NAMES else "")
