"""Values of constants in a graph: the only place where tensors of a graph are expanded.

A few bytes may declare petabytes: expanded are only tensors of at most MOST_READ elements, or as
many as their file has. In all others the element that fills the rest occurs once (`compact`).
"""

from __future__ import annotations

import functools
import operator
from typing import Any, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import FLOAT32, FLOATS

MOST_READ = 1 << 20  # elements of a tensor that is expanded though its file holds fewer
MOST_WHOLE = 1 << 12  # elements of a splat that is written whole in another dtype
_MOST_KEPT = 256  # bytes of a tensor whose elements are kept: a graph's small constants are alike


def all_equal(node: tf.NodeDef, number: float) -> bool:
    """Whether a node is a constant all of whose numbers equal the given one.

    NumPy's own comparisons don't support 1.15.5's bfloat16.
    """
    if (
        node.op != "Const"
        or "value" not in node.attr
        or node.attr["value"].tensor.dtype not in FLOATS
    ):
        return False
    return bool(np.all(compact(node.attr["value"].tensor).astype(np.float32) == number))


def is_one(view: GraphView, name: str) -> bool:
    """Whether a node is the number 1, the initial gradient of a loss."""
    node = view.nodes[name]
    if node.op != "Fill":
        return all_equal(node, 1) and elements(node.attr["value"].tensor) == 1
    dims = view.nodes[view.inputs(name)[0].node]
    return is_ones(view, name) and dims.op == "Const" and elements(dims.attr["value"].tensor) == 0


def is_ones(view: GraphView, name: str) -> bool:
    """Whether a node is filled with ones, the initial gradient of a loss of any shape."""
    node = view.nodes[name]
    filler = view.nodes[view.inputs(name)[1].node] if node.op == "Fill" else node
    return node.op == "OnesLike" or all_equal(filler, 1)


def elements(tensor: Any) -> int:
    """The number of elements of a TensorProto, by its shape."""
    return functools.reduce(operator.mul, (dim.size for dim in tensor.tensor_shape.dim), 1)


def array(tensor: Any) -> Optional[np.ndarray]:
    """The value of a TensorProto.

    None for an unknown dtype, elements that don't fit its shape, or more elements than MOST_READ
    that its file doesn't hold.
    """
    try:
        short = compact(tensor)
        missing = elements(tensor) - len(short)
        if missing > MOST_READ:
            return None
        whole = np.concatenate([short, np.repeat(short[-1:], missing)]) if missing else short
        return whole.reshape([dim.size for dim in tensor.tensor_shape.dim])
    except (TypeError, ValueError, KeyError, IndexError):
        return None


def constant(node: tf.NodeDef) -> Optional[np.ndarray]:
    """The value of a constant node; None for any other, and where `array` gives none."""
    is_constant = node.op == "Const" and "value" in node.attr
    return array(node.attr["value"].tensor) if is_constant else None


def number(node: tf.NodeDef) -> Optional[float]:
    """The number in a constant of one element, of any rank; None for any other node."""
    value = constant(node)
    is_number = value is not None and value.size == 1 and value.dtype.kind in "fiubV"
    return float(value.ravel()[0]) if is_number else None  # type: ignore[union-attr]


def changed(tensor: Any, dtype: Any) -> Any:
    """A TensorProto cast to another dtype; a splat of more than MOST_WHOLE elements stays one."""
    short = compact(tensor).astype(tf.as_dtype(dtype).as_numpy_dtype)
    count = elements(tensor)
    if len(short) < count <= MOST_WHOLE:
        short = np.concatenate([short, np.repeat(short[-1:], count - len(short))])
    if len(short) == count:
        return tf.make_tensor_proto(short.reshape([dim.size for dim in tensor.tensor_shape.dim]))
    result = tf.make_tensor_proto(short)
    if result.tensor_content:
        result = _listed(short)
    result.tensor_shape.CopyFrom(tensor.tensor_shape)
    return result


def _listed(values: np.ndarray) -> Any:
    """A TensorProto that lists its values one by one: content would have to be whole."""
    result = tf.make_tensor_proto(values[:1])
    field = next(f.name for f, _ in result.ListFields() if f.name.endswith("_val"))
    for value in values[1:]:
        getattr(result, field).extend(getattr(tf.make_tensor_proto(value), field))
    return result


def compact(tensor: Any) -> np.ndarray:
    """The elements of a real TensorProto, flat; the element that fills the rest occurs once.

    Expanded, a few bytes may be petabytes. Of one without a type there are none. Equal small
    tensors have the same elements, which can't be changed.
    """
    if tensor.ByteSize() > _MOST_KEPT:
        return _expanded(tensor)
    kind: Any = type(tensor)
    return _kept(kind, tensor.SerializeToString())


@functools.lru_cache(maxsize=4096)
def _kept(kind: Any, data: bytes) -> np.ndarray:
    found = _expanded(kind.FromString(data))
    found.flags.writeable = False
    return found


def _expanded(tensor: Any) -> np.ndarray:
    if not tensor.dtype:
        return np.zeros(0, np.float32)
    if tensor.tensor_content:
        return np.asarray(tf.make_ndarray(tensor)).ravel()
    count = max(
        (len(value) for field, value in tensor.ListFields() if field.name.endswith("_val")),
        default=0,
    )
    if not count or not elements(tensor):
        return np.zeros(min(1, elements(tensor)), tf.as_dtype(tensor.dtype).as_numpy_dtype)
    short = type(tensor)()
    short.CopyFrom(tensor)
    del short.tensor_shape.dim[:]
    short.tensor_shape.dim.add(size=count)
    return np.asarray(tf.make_ndarray(short))


def float32_values(node: tf.NodeDef) -> np.ndarray:
    """The elements of a float32 constant, as `compact` gives them; none of any other node."""
    tensor = node.attr["value"].tensor if "value" in node.attr else None
    if tensor is None or tensor.dtype != FLOAT32:
        return np.zeros(0, np.float32)
    return compact(tensor)


def strings(node: tf.NodeDef) -> List[str]:
    """The strings of a constant; empty for any other node."""
    if (
        node.op != "Const"
        or "value" not in node.attr
        or node.attr["value"].tensor.dtype != tf.string.as_datatype_enum
    ):
        return []
    value = array(node.attr["value"].tensor)
    return [] if value is None else [text.decode("utf-8", "replace") for text in value.ravel()]
