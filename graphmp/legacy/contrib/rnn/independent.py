"""The cells of `tf.contrib.rnn` whose units only see their own state (Li 2018, Gonnet 2019)."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import (
    Activation,
    Cell,
    LSTMStateTuple,
    linear_parts,
    lstm_sizes,
    lstm_update,
    variable,
)

__all__ = ["IndRNNCell", "IndyGRUCell", "IndyLSTMCell"]


def _independent(
    inputs: tf.Tensor,
    state: tf.Tensor,
    names: Tuple[str, str, str],
    gates: int = 1,
    kernel: Any = None,
    bias: Any = None,
) -> tf.Tensor:
    """x · w + h * u + b for several gates, their units concatenated.

    `names` are those of the variables w, u and b.
    """
    size = gates * state.shape.as_list()[1]
    w = variable(names[0], [linear_parts(inputs)[1], size], inputs, initializer=kernel)
    u = variable(names[1], [1, size], inputs, initializer=tf.random_uniform_initializer(-1, 1))
    b = variable(names[2], [size], inputs, initializer=bias or tf.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(inputs, w) + tf.tile(state, [1, gates]) * u, b)


_NAMES = ("kernel_w", "kernel_u", "bias")
_GATES = ("gates/kernel_w", "gates/kernel_u", "gates/bias")
_CANDIDATE = ("candidate/kernel", "candidate/kernel_u", "candidate/bias")


class IndRNNCell(Cell):
    """The independently recurrent network (Li 2018): each unit only sees its own state."""

    def __init__(
        self,
        num_units: int,
        activation: Optional[Activation] = None,
        reuse: Optional[bool] = None,
        name: Optional[str] = None,
        dtype: Any = None,
    ):
        super().__init__(num_units, num_units, reuse, name, dtype)
        self._activation = activation or tf.tanh

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        new = self._activation(_independent(inputs, state, _NAMES))
        return new, new


class IndyGRUCell(Cell):
    """A GRU with an independently recurrent state; see `IndRNNCell`."""

    def __init__(
        self,
        num_units: int,
        activation: Optional[Activation] = None,
        reuse: Optional[bool] = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: Optional[str] = None,
        dtype: Any = None,
    ):
        super().__init__(num_units, num_units, reuse, name, dtype)
        self._activation, self._kernel, self._bias = (
            activation or tf.tanh,
            kernel_initializer,
            bias_initializer,
        )

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        gates = _independent(
            inputs, state, _GATES, 2, self._kernel, self._bias or tf.ones_initializer()
        )
        r, u = tf.split(tf.sigmoid(gates), 2, axis=1)
        c = self._activation(
            _independent(inputs, r * state, _CANDIDATE, 1, self._kernel, self._bias)
        )
        new = u * state + (1 - u) * c
        return new, new


class IndyLSTMCell(Cell):
    """An LSTM with an independently recurrent state (Gonnet 2019); see `IndRNNCell`."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        activation: Optional[Activation] = None,
        reuse: Optional[bool] = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: Optional[str] = None,
        dtype: Any = None,
    ):
        super().__init__(*lstm_sizes(num_units), reuse=reuse, name=name, dtype=dtype)
        self._forget_bias, self._activation = forget_bias, activation or tf.tanh
        self._kernel, self._bias = kernel_initializer, bias_initializer

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, h = state
        gates = tf.split(_independent(inputs, h, _NAMES, 4, self._kernel, self._bias), 4, axis=1)
        new_c, new_h = lstm_update(gates, c, self._forget_bias, self._activation)
        return new_h, LSTMStateTuple(new_c, new_h)
