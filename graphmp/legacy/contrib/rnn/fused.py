"""The RNNs of `tf.contrib.rnn` that process a whole sequence, time first, in one call.

Own code: TensorFlow 2 only kept the op BlockLSTM.
"""

from __future__ import annotations

import abc
from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import LSTMStateTuple

__all__ = [
    "FusedRNNCell",
    "FusedRNNCellAdaptor",
    "LSTMBlockFusedCell",
    "LSTMBlockWrapper",
    "TimeReversedFusedRNN",
]


class FusedRNNCell(abc.ABC):
    """Maps [time, batch, depth], or a list of [batch, depth], to outputs and the last state."""

    @abc.abstractmethod
    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Tuple[Any, Any]:
        """Process the whole sequence."""


class FusedRNNCellAdaptor(FusedRNNCell):
    """An ordinary cell as a fused one, by `tf.nn.static_rnn` or `tf.nn.dynamic_rnn`."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False):
        self._cell, self._use_dynamic_rnn = cell, use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Tuple[Any, Any]:
        is_list = isinstance(inputs, list)
        options = dict(
            initial_state=initial_state, dtype=dtype, sequence_length=sequence_length, scope=scope
        )
        if self._use_dynamic_rnn:
            outputs, state = tf.nn.dynamic_rnn(
                self._cell, tf.stack(inputs) if is_list else inputs, time_major=True, **options
            )
            return tf.unstack(outputs) if is_list else outputs, state
        outputs, state = tf.nn.static_rnn(
            self._cell, inputs if is_list else tf.unstack(inputs), **options
        )
        return outputs if is_list else tf.stack(outputs), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A fused cell applied backwards in time; its outputs are in the order of its inputs."""

    def __init__(self, cell: Any):
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Tuple[Any, Any]:
        options = dict(
            initial_state=initial_state, dtype=dtype, sequence_length=sequence_length, scope=scope
        )
        outputs, state = self._cell(_reversed(inputs, sequence_length), **options)
        return _reversed(outputs, sequence_length), state


def _reversed(sequence: Any, lengths: Any) -> Any:
    if isinstance(sequence, list):
        return sequence[::-1]
    return (
        tf.reverse(sequence, [0])
        if lengths is None
        else tf.reverse_sequence(sequence, lengths, 0, 1)
    )


class LSTMBlockWrapper(tf.layers.Layer):
    """Parts of fused LSTMs: initial state, padding of short sequences, final states."""

    num_units = 0

    def _call_cell(
        self, inputs: tf.Tensor, c: tf.Tensor, h: tf.Tensor, dtype: Any, sequence_length: Any
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Cell states and outputs of all steps, [time, batch, units]."""
        raise NotImplementedError("Abstract method")

    def call(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None
    ) -> Tuple[Any, Any]:
        """See `FusedRNNCell`; an initial state or a dtype must be given."""
        if initial_state is None and dtype is None:
            raise ValueError("Either initial_state or dtype needs to be specified")
        c, h = initial_state or [tf.zeros([tf.shape(inputs)[1], self.num_units], dtype)] * 2
        states, outputs = self._call_cell(inputs, c, h, dtype or c.dtype, sequence_length)
        if sequence_length is None:
            return outputs, LSTMStateTuple(states[-1], outputs[-1])
        within = tf.sequence_mask(sequence_length, tf.shape(inputs)[0], outputs.dtype)
        outputs *= tf.expand_dims(tf.transpose(within), -1)
        return outputs, LSTMStateTuple(
            *(_last(first, steps, sequence_length) for first, steps in ((c, states), (h, outputs)))
        )


def _last(first: tf.Tensor, steps: tf.Tensor, lengths: Any) -> tf.Tensor:
    """The state of each sequence after its own number of steps, possibly zero."""
    every = tf.concat([tf.expand_dims(first, 0), steps], 0)
    lengths = tf.cast(lengths, tf.int32)
    return tf.gather_nd(every, tf.stack([lengths, tf.range(tf.shape(lengths)[0])], axis=1))


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """An LSTM over a whole sequence by the op BlockLSTM.

    It has the variables `kernel` and `bias` of `BasicLSTMCell`.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: Optional[float] = None,
        use_peephole: bool = False,
        reuse: Optional[bool] = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.num_units = num_units
        self._attributes = dict(
            forget_bias=forget_bias,
            cell_clip=-1 if cell_clip is None else cell_clip,
            use_peephole=use_peephole,
        )

    def build(self, input_shape: Any) -> None:
        """Makes the variables; a peephole's are `w_i_diag`, `w_f_diag` and `w_o_diag`."""
        size = self.num_units
        width = tf.TensorShape(input_shape).as_list()[2]
        self._kernel = self.add_weight("kernel", [width + size, 4 * size])
        self._bias = self.add_weight("bias", [4 * size], initializer=tf.zeros_initializer())
        names = ("w_i_diag", "w_f_diag", "w_o_diag") if self._attributes["use_peephole"] else ()
        self._diagonals = [self.add_weight(name, [size]) for name in names]
        self.built = True

    def _call_cell(
        self, inputs: tf.Tensor, c: tf.Tensor, h: tf.Tensor, dtype: Any, sequence_length: Any
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        steps = tf.shape(inputs)[0] if sequence_length is None else tf.reduce_max(sequence_length)
        wci, wcf, wco = self._diagonals or [tf.zeros([self.num_units], dtype)] * 3
        result = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(steps, tf.int64),
            x=inputs,
            cs_prev=c,
            h_prev=h,
            w=self._kernel,
            wci=wci,
            wcf=wcf,
            wco=wco,
            b=self._bias,
            **self._attributes,
        )
        return result.cs, result.h
