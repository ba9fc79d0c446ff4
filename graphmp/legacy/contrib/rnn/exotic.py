"""The rarer cells of `tf.contrib.rnn`.

Missing: GridLSTMCell, BidirectionalGridLSTMCell, TimeFreqLSTMCell, PhasedLSTMCell.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import (
    Activation,
    Cell,
    LSTMStateTuple,
    linear,
    linear_parts,
    lstm_sizes,
    lstm_update,
    variable,
)

__all__ = ["GLSTMCell", "IntersectionRNNCell", "NASCell", "SRUCell"]


class IntersectionRNNCell(Cell):
    """The +RNN (Collins 2016), with an output separate from the state."""

    def __init__(
        self,
        num_units: int,
        num_in_proj: Optional[int] = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Activation = tf.nn.relu,
        reuse: Optional[bool] = None,
    ):
        super().__init__(num_units, num_units, reuse)
        self._num_in_proj, self._initializer, self._forget_bias, self._y_activation = (
            num_in_proj,
            initializer,
            forget_bias,
            y_activation,
        )

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            if linear_parts(inputs)[1] != self.output_size:
                inputs = self._project(inputs)
            parts = tf.split(linear([inputs, state], 4 * self.output_size, True), 4, axis=1)
        gh, gy = (tf.sigmoid(part + self._forget_bias) for part in (parts[0], parts[2]))
        return gy * inputs + (1.0 - gy) * self._y_activation(parts[3]), gh * state + (
            1.0 - gh
        ) * tf.tanh(parts[1])

    def _project(self, inputs: tf.Tensor) -> tf.Tensor:
        if not self._num_in_proj:
            raise ValueError(
                "Must have input size == output size for Intersection RNN. To fix, num_in_proj"
                " should be set to num_units at cell init."
            )
        with tf.variable_scope("in_projection"):
            return linear(inputs, self.output_size, True)


class NASCell(Cell):
    """The cell found by neural architecture search (Zoph 2016)."""

    def __init__(
        self,
        num_units: int,
        num_proj: Optional[int] = None,
        use_bias: bool = False,
        reuse: Optional[bool] = None,
        **kwargs: Any,
    ):
        super().__init__(*lstm_sizes(num_units, num_proj), reuse=reuse, **kwargs)
        self._num_proj, self._use_bias = num_proj, use_bias

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, m = state
        size = self.state_size[0]
        recurrent = tf.matmul(m, variable("recurrent_kernel", [self.output_size, 8 * size], inputs))
        forward = tf.matmul(inputs, variable("kernel", [linear_parts(inputs)[1], 8 * size], inputs))
        if self._use_bias:
            recurrent = tf.nn.bias_add(recurrent, variable("bias", [8 * size], inputs, 0.0))
        x, h = tf.split(forward, 8, axis=1), tf.split(recurrent, 8, axis=1)
        left = tf.tanh(tf.sigmoid(x[0] + h[0]) * tf.nn.relu(x[1] + h[1]))
        right = tf.tanh(tf.sigmoid(x[2] + h[2]) + tf.nn.relu(x[3] * h[3]))
        third = tf.tanh(tf.tanh(x[4] + h[4]) * tf.sigmoid(x[5] + h[5]))
        fourth = tf.sigmoid(tf.tanh(x[6] + h[6]) + tf.sigmoid(x[7] + h[7]))
        new_c = tf.tanh(left + c) * right
        new_m = tf.tanh(new_c * tf.tanh(third + fourth))
        if self._num_proj is not None:
            new_m = tf.matmul(new_m, variable("projection_weights", [size, self._num_proj], inputs))
        return new_m, LSTMStateTuple(new_c, new_m)


class GLSTMCell(Cell):
    """The group LSTM (Kuchaiev 2017): `number_of_groups` small LSTMs side by side."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        num_proj: Optional[int] = None,
        number_of_groups: int = 1,
        forget_bias: float = 1.0,
        activation: Activation = tf.tanh,
        reuse: Optional[bool] = None,
    ):
        if num_units % number_of_groups or (num_proj or 0) % number_of_groups:
            raise ValueError("num_units and num_proj must be divisible by number_of_groups")
        super().__init__(*lstm_sizes(num_units, num_proj), reuse=reuse)
        self._initializer, self._num_proj, self._groups = initializer, num_proj, number_of_groups
        self._forget_bias, self._activation = forget_bias, activation

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, m = state
        size = self.state_size[0]
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            groups = zip(tf.split(inputs, self._groups, axis=1), tf.split(m, self._groups, axis=1))
            parts = [self._group(index, x, h) for index, (x, h) in enumerate(groups)]
            gates = [
                tf.nn.bias_add(tf.concat(gate, 1), variable("bias_" + name, [size], inputs, 0.0))
                for name, gate in zip("ijfo", zip(*parts))
            ]
        new_c, _ = lstm_update(gates, c, self._forget_bias)
        new_m = tf.sigmoid(gates[3]) * self._activation(new_c)
        if self._num_proj is not None:
            with tf.variable_scope("projection"):
                new_m = linear(new_m, self._num_proj, False)
        return new_m, LSTMStateTuple(new_c, new_m)

    def _group(self, index: int, x: tf.Tensor, h: tf.Tensor) -> List[tf.Tensor]:
        with tf.variable_scope("group%d" % index):
            return tf.split(
                linear([x, h], 4 * self.state_size[0] // self._groups, False), 4, axis=1
            )


class SRUCell(Cell):
    """The simple recurrent unit (Lei 2017)."""

    def __init__(
        self,
        num_units: int,
        activation: Optional[Activation] = None,
        reuse: Optional[bool] = None,
        name: Optional[str] = None,
        **kwargs: Any,
    ):
        super().__init__(num_units, num_units, reuse, name, **kwargs)
        self._activation = activation or tf.tanh

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        size = self.state_size
        x, f, r, skip = tf.split(
            tf.matmul(inputs, variable("kernel", [linear_parts(inputs)[1], 4 * size], inputs)),
            4,
            axis=1,
        )
        bias = variable("bias", [2 * size], inputs, 0.0)
        f, r = tf.split(tf.sigmoid(tf.nn.bias_add(tf.concat([f, r], 1), bias)), 2, axis=1)
        new = f * state + (1.0 - f) * x
        return r * self._activation(new) + (1.0 - r) * skip, new
