"""Small graphs of recurrent parts of `tf.contrib`, with variables of fixed values."""

from __future__ import annotations

import zlib
from typing import Any, Dict, Sequence

import numpy as np
import tensorflow.compat.v1 as tf


def evaluated(fetches: Dict[str, Any], feeds: Any = None) -> Dict[str, Any]:
    """The values of tensors after each variable was set to numbers made of its name.

    The variables are added by name, with the shape of each and the mean at its start.
    """
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        biases = {name: values for name, values in variables.items() if name.endswith("bias")}
        found = {"start/" + name: value.tolist() for name, value in session.run(biases).items()}
        for name, variable in variables.items():
            random = np.random.RandomState(zlib.crc32(name.encode()))
            variable.load(random.randn(*variable.shape.as_list()) * 0.5, session)
            found["shape/" + name] = variable.shape.as_list()
        values = session.run(fetches, feeds)
    return dict(found, **{name: np.asarray(value).tolist() for name, value in values.items()})


def ramp(*shape: int) -> np.ndarray:
    """Numbers between minus one and one."""
    return np.sin(np.arange(np.prod(shape), dtype="f")).reshape(shape)


def cudnn_rnn(contrib: Any) -> Dict[str, Any]:
    """The portable cells in stacks, and the gradient of the inputs."""
    fetches: Dict[str, Any] = {}
    for name in ("LSTM", "GRU"):
        make = getattr(contrib, "CudnnCompatible%sCell" % name)
        inputs = tf.constant(ramp(3, 2, 4))
        cell = tf.nn.rnn_cell.MultiRNNCell([make(5), make(5)])
        with tf.variable_scope("cudnn_" + name.lower()):
            outputs, _ = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32, time_major=True)
        fetches[name] = outputs
        fetches[name + "_slope"] = tf.gradients(outputs, inputs)[0]
    return evaluated(fetches)


def ids(*rows: Sequence[int]) -> Any:
    """Constant batches of ids, one a step."""
    return [tf.constant(row) for row in rows]
