"""`tf.contrib.memory_stats`: memory of the GPU on which its operation is placed.

As in TensorFlow 1 there is nothing to read on a CPU: the run of the operation ends in an error.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["BytesInUse", "MaxBytesInUse"]


def BytesInUse() -> tf.Tensor:  # noqa: N802 (contrib's name)
    """Bytes that are allocated on the device."""
    return _read("current", "BytesInUse")


def MaxBytesInUse() -> tf.Tensor:  # noqa: N802 (contrib's name)
    """The most bytes that were allocated on the device at a time."""
    return _read("peak", "MaxBytesInUse")


def _read(kind: str, name: str) -> tf.Tensor:
    """The operation is made on its device, of which it reads, and then moved to the CPU."""

    def read() -> np.ndarray:
        return np.array(tf.config.experimental.get_memory_info(device)[kind], np.int64)

    value = tf.py_func(read, [], tf.int64, name=name)
    device = value.op.device.rpartition("device:")[2] or "GPU:0"
    value.op._set_device("/device:CPU:0")
    value.set_shape([])
    return value
