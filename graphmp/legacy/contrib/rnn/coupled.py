"""The LSTM of `tf.contrib.rnn` with coupled input and forget gates.

Own code: no successor exists.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import (
    Activation,
    Cell,
    LSTMStateTuple,
    layer_norm,
    linear_parts,
    lstm_sizes,
    variable,
)

__all__ = ["CoupledInputForgetGateLSTMCell"]


class CoupledInputForgetGateLSTMCell(Cell):
    """An LSTM whose input gate is one minus its forget gate (Greff 2015).

    `initializer` is ignored, as in contrib.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: Optional[int] = None,
        proj_clip: Optional[float] = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation = tf.tanh,
        reuse: Optional[bool] = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ):
        state, output = lstm_sizes(num_units, num_proj)
        super().__init__(state if state_is_tuple else sum(state), output, reuse)
        self._num_units, self._num_proj, self._proj_clip = num_units, num_proj, proj_clip
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._use_peepholes, self._forget_bias, self._activation = (
            use_peepholes,
            forget_bias,
            activation,
        )
        self._norm = (norm_gain, norm_shift) if layer_norm else None
        self._state_is_tuple = state_is_tuple

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, m = (
            state
            if self._state_is_tuple
            else tf.split(state, [self._num_units, self.output_size], axis=1)
        )
        j, f, o = self._gates(inputs, m)
        names = ("W_F_diag", "W_O_diag") if self._use_peepholes else ()
        w_f, w_o = [variable(name, [self._num_units], inputs) for name in names] or (0.0, 0.0)
        forget = tf.sigmoid(f + self._forget_bias + w_f * c)
        new_c = self._normalized(forget * c + (1 - forget) * self._activation(j), "state")
        new_m = self._projected(tf.sigmoid(o + w_o * new_c) * self._activation(new_c))
        return new_m, LSTMStateTuple(new_c, new_m) if self._state_is_tuple else tf.concat(
            [new_c, new_m], 1
        )

    def _gates(self, inputs: tf.Tensor, m: tf.Tensor) -> List[tf.Tensor]:
        cell_inputs, width = linear_parts([inputs, m])
        product = tf.matmul(
            cell_inputs, _sharded("W", [width, 3 * self._num_units], inputs, self._num_unit_shards)
        )
        bias = variable(
            "B", [3 * self._num_units], inputs, 0.0
        )  # created, though not added with layer norm
        gates = tf.split(product if self._norm else tf.nn.bias_add(product, bias), 3, axis=1)
        return [
            self._normalized(gate, name)
            for gate, name in zip(gates, ("transform", "forget", "output"))
        ]

    def _normalized(self, inputs: tf.Tensor, scope: str) -> tf.Tensor:
        return layer_norm(inputs, scope, *self._norm) if self._norm else inputs

    def _projected(self, m: tf.Tensor) -> tf.Tensor:
        if self._num_proj is None:
            return m
        m = tf.matmul(
            m, _sharded("W_P", [self._num_units, self._num_proj], m, self._num_proj_shards)
        )
        return (
            m if self._proj_clip is None else tf.clip_by_value(m, -self._proj_clip, self._proj_clip)
        )


def _sharded(name: str, shape: Sequence[int], like: tf.Tensor, shards: int) -> tf.Tensor:
    """A matrix stored in the variables `name_0`, `name_1` and so on.

    Rows are distributed evenly; the first shards get one more if that leaves a remainder.
    """
    rows, extra = divmod(shape[0], shards)
    parts = [
        variable("%s_%d" % (name, index), [rows + (index < extra), *shape[1:]], like)
        for index in range(shards)
    ]
    return parts[0] if shards == 1 else tf.concat(parts, 0)
