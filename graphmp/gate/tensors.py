"""Whether a TensorProto has a known dtype, a shape, and contents that fit both."""

from __future__ import annotations

import functools
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.gate.limits import MOST_ELEMENTS
from graphmp.graph.structure.values import elements

# The field that holds the values of a dtype; other dtypes have no contents that graphmp reads.
_VALUES = {
    tf.bfloat16: "half_val",
    tf.bool: "bool_val",
    tf.complex128: "dcomplex_val",
    tf.complex64: "scomplex_val",
    tf.float16: "half_val",
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int16: "int_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.int8: "int_val",
    tf.qint16: "int_val",
    tf.qint32: "int_val",
    tf.qint8: "int_val",
    tf.quint16: "int_val",
    tf.quint8: "int_val",
    tf.string: "string_val",
    tf.uint16: "int_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.uint8: "int_val",
}


@functools.lru_cache(maxsize=None)
def is_known(dtype: int) -> bool:
    """Whether the TensorFlow in the process knows a number of the DataType enum."""
    try:
        return tf.as_dtype(dtype) is not None
    except (TypeError, KeyError):
        return False


def fault(tensor: Any) -> Optional[str]:
    """The finding about a TensorProto; None if it is valid."""
    if not is_known(tensor.dtype):
        return "a tensor of the unknown dtype %d" % tensor.dtype
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    if any(size < 0 for size in sizes):
        return "a tensor with a dimension of %d" % min(sizes)
    count = elements(tensor)
    if count >= MOST_ELEMENTS:
        return "a tensor of %g elements" % count
    dtype = tf.as_dtype(tensor.dtype)
    return _content(tensor, dtype, count) or _values(tensor, dtype, count)


def _content(tensor: Any, dtype: tf.DType, count: int) -> Optional[str]:
    found = len(tensor.tensor_content)
    if not found or dtype == tf.string or dtype not in _VALUES or found == count * dtype.size:
        return None
    return "a tensor of %d elements of %s in %d bytes" % (count, dtype.name, found)


def _values(tensor: Any, dtype: tf.DType, count: int) -> Optional[str]:
    most = max(1, count) * (2 if dtype.is_complex else 1)  # TensorFlow writes one value for none
    for field, values in tensor.ListFields():
        if field.name.endswith("_val") and dtype in _VALUES:
            if field.name != _VALUES[dtype]:
                return "a tensor of %s with values in %s" % (dtype.name, field.name)
            if len(values) > most:
                return "a tensor of %d elements with %d values" % (count, len(values))
    return None
