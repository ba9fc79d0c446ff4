"""Cells of `tf.contrib.rnn` that scripts use most and that `tf.nn.rnn_cell` lacks."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import (
    Activation,
    Cell,
    LSTMStateTuple,
    layer_norm,
    linear,
    linear_parts,
    lstm_sizes,
    variable,
)

__all__ = ["GRUBlockCell", "GRUBlockCellV2", "LSTMBlockCell", "LayerNormBasicLSTMCell", "UGRNNCell"]


class LSTMBlockCell(Cell):
    """An LSTM with the variables of `LSTMCell`, made of ordinary ops.

    TensorFlow 2 has the op LSTMBlockCell, but no gradient for it.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: Optional[float] = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Optional[bool] = None,
        name: str = "lstm_cell",
    ):
        super().__init__(*lstm_sizes(num_units), reuse=reuse, name=name, dtype=dtype)
        self._forget_bias, self._cell_clip, self._use_peephole = (
            forget_bias,
            cell_clip or -1,
            use_peephole,
        )

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, h = state
        i, j, f, o = tf.split(linear([inputs, h], 4 * self.output_size, True), 4, axis=1)
        names = ("w_i_diag", "w_f_diag", "w_o_diag") if self._use_peephole else ()
        w_i, w_f, w_o = [variable(name, [self.output_size], inputs) for name in names] or (
            0.0,
            0.0,
            0.0,
        )
        new_c = tf.sigmoid(f + self._forget_bias + w_f * c) * c + tf.sigmoid(i + w_i * c) * tf.tanh(
            j
        )
        if (
            self._cell_clip > 0
        ):  # unlike tf.clip_by_value, the op has a gradient that ignores the clip
            new_c += tf.stop_gradient(
                tf.clip_by_value(new_c, -self._cell_clip, self._cell_clip) - new_c
            )
        new_h = tf.sigmoid(o + w_o * new_c) * tf.tanh(new_c)
        return new_h, LSTMStateTuple(new_c, new_h)


class GRUBlockCell(Cell):
    """A GRU with the variables `w_ru`, `b_ru`, `w_c` and `b_c`, made of ordinary ops.

    See `LSTMBlockCell`.
    """

    NAMES = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(
        self,
        num_units: Optional[int] = None,
        cell_size: Optional[int] = None,
        reuse: Optional[bool] = None,
        name: str = "gru_cell",
    ):
        if (num_units is None) == (cell_size is None):
            raise ValueError("Exactly one of num_units or cell_size must be provided.")
        size = cell_size if num_units is None else num_units
        super().__init__(size, size, reuse, name)

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        size, width = self.state_size, linear_parts([inputs, state])[1]
        w_ru, b_ru, w_c, b_c = self.NAMES
        gates = tf.matmul(tf.concat([inputs, state], 1), variable(w_ru, [width, 2 * size], inputs))
        r, u = tf.split(
            tf.sigmoid(tf.nn.bias_add(gates, variable(b_ru, [2 * size], inputs, 1.0))), 2, axis=1
        )
        candidate = tf.matmul(
            tf.concat([inputs, r * state], 1), variable(w_c, [width, size], inputs)
        )
        c = tf.tanh(tf.nn.bias_add(candidate, variable(b_c, [size], inputs, 0.0)))
        new = u * state + (1 - u) * c
        return new, new


class GRUBlockCellV2(GRUBlockCell):
    """`GRUBlockCell` with the variable names of `GRUCell`."""

    NAMES = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")


class LayerNormBasicLSTMCell(Cell):
    """An LSTM with layer-normalised gates and state, and dropout on the transform.

    Ba 2016, Semeniuta 2016.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Activation = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: Optional[int] = None,
        reuse: Optional[bool] = None,
    ):
        super().__init__(*lstm_sizes(num_units), reuse=reuse)
        self._forget_bias, self._activation = forget_bias, activation
        self._norm = (norm_gain, norm_shift) if layer_norm else None
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, h = state
        bias_initializer = tf.get_variable_scope().initializer or tf.glorot_uniform_initializer()
        gates = linear([inputs, h], 4 * self.output_size, not self._norm, bias_initializer)
        i, j, f, o = (
            self._normalized(gate, name)
            for gate, name in zip(
                tf.split(gates, 4, axis=1), ("input", "transform", "forget", "output")
            )
        )
        g = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            g = tf.nn.dropout(g, self._keep_prob, seed=self._seed)
        new_c = self._normalized(c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * g, "state")
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)

    def _normalized(self, inputs: tf.Tensor, scope: str) -> tf.Tensor:
        return layer_norm(inputs, scope, *self._norm) if self._norm else inputs


class UGRNNCell(Cell):
    """The update-gate RNN (Collins 2016)."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Activation = tf.tanh,
        reuse: Optional[bool] = None,
    ):
        super().__init__(num_units, num_units, reuse)
        self._initializer, self._forget_bias, self._activation = (
            initializer,
            forget_bias,
            activation,
        )

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gate, candidate = tf.split(
                linear([inputs, state], 2 * self.state_size, True), 2, axis=1
            )
        g = tf.sigmoid(gate + self._forget_bias)
        new = g * state + (1.0 - g) * self._activation(candidate)
        return new, new
