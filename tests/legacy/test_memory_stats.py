"""`tf.contrib.memory_stats` on what TensorFlow 2 tells of a GPU's memory."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib_modules import ContribModule

pytestmark = pytest.mark.skipif(tf.VERSION < "2", reason="TensorFlow 1 has its own")


@pytest.mark.parametrize(
    "name, kind, device, asked",
    [
        ("MaxBytesInUse", "peak", "/GPU:1", "GPU:1"),
        ("BytesInUse", "current", "/device:GPU:0", "GPU:0"),
        ("MaxBytesInUse", "peak", None, "GPU:0"),
    ],
)
def test_the_memory_of_its_device(monkeypatch, name, kind, device, asked):
    memory = {"GPU:0": {"current": 3, "peak": 5}, "GPU:1": {"current": 7, "peak": 9}}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", memory.__getitem__)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device(device):
            value = getattr(ContribModule("memory_stats"), name)()
        assert (value.dtype, value.shape.as_list()) == (tf.int64, [])
        assert session.run(value) == memory[asked][kind]


def test_a_cpu_has_none():
    with tf.Graph().as_default(), tf.Session() as session:
        value = ContribModule("memory_stats").MaxBytesInUse()
        with pytest.raises(tf.errors.OpError):
            session.run(value)
