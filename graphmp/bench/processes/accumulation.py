"""The precision in which half-precision products are added up, measured on long sums."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import numpy as np
import tensorflow.compat.v1 as tf

# If unset, float16 products on a GPU are added up in float32 (core/util/matmul_autotune.cc,
# stream_executor/cuda/cuda_dnn.cc).
VARIABLES = {
    "matmul": "TF_FP16_MATMUL_USE_FP32_COMPUTE",
    "convolution": "TF_FP16_CONV_USE_FP32_COMPUTE",
}
_TERMS = 8192  # of a sum
_ROUNDED_ONCE = 2.5
_ROUNDING_BITS = {"float16": 11, "bfloat16": 8}


def errors(dtype: str) -> Dict[str, Optional[float]]:
    """The largest relative error of a sum for "matmul" and "convolution"; None without a kernel.

    In units of the dtype's rounding error.
    """
    random = np.random.RandomState(0)
    rows, columns = (0.1 * random.random_sample(shape) for shape in ((32, _TERMS), (_TERMS, 32)))
    pictures, filters = (
        rows.reshape(32, 4, 4, _TERMS // 16),
        columns.reshape(4, 4, _TERMS // 16, 32),
    )
    found: Dict[str, Optional[float]] = {}
    for kind, left, right in (("matmul", rows, columns), ("convolution", pictures, filters)):
        with tf.Graph().as_default(), tf.Session() as session:
            try:
                found[kind] = _error(session, left, right, dtype)
            except tf.errors.OpError:
                found[kind] = None
    return found


def dtypes(errors: Mapping[str, Optional[float]], dtype: str) -> Dict[str, Optional[str]]:
    """The dtype in which "matmul" and "convolution" add up products; None if they don't run.

    Args:
        errors: the largest relative error of sums over thousands of positive products, in units of
            the dtype's rounding error: about one if only the sum is rounded, several if each
            addition is.
        dtype: of the factors.
    """
    return {
        kind: None if error is None else "float32" if error <= _ROUNDED_ONCE else dtype
        for kind, error in errors.items()
    }


def _error(session: tf.Session, left: np.ndarray, right: np.ndarray, dtype: str) -> float:
    """The factors are rounded first, so that only the sums' own error remains."""
    a, b = (
        tf.cast(tf.placeholder_with_default(value.astype(np.float32), value.shape), dtype)
        for value in (left, right)
    )
    product: Any = tf.matmul(a, b) if left.ndim == 2 else tf.nn.conv2d(a, b, [1, 1, 1, 1], "VALID")
    got, x, y = (
        np.float64(value)
        for value in session.run([tf.cast(each, tf.float32) for each in (product, a, b)])
    )
    exact = x.reshape(32, _TERMS).dot(y.reshape(_TERMS, 32))
    return float(np.max(np.abs(got.reshape(32, 32) - exact) / exact) * 2.0 ** _ROUNDING_BITS[dtype])
