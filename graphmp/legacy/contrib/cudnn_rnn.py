"""The cells and layers of `tf.contrib.cudnn_rnn`, in a form that runs on every device.

Own code, of ordinary ops: TensorFlow 2's ops of cuDNN need a GPU.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import Cell, LSTMStateTuple, linear, lstm_sizes, lstm_update

__all__ = ["CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU", "CudnnLSTM"]

_DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


class CudnnCompatibleLSTMCell(Cell):
    """The LSTM that cuDNN computes: no bias is added to the forget gate.

    Args:
        num_units: size of the state.
        reuse: whether existing variables are used.
        bias_initializer: zeros if None.
    """

    def __init__(self, num_units: int, reuse: Optional[bool] = None, bias_initializer: Any = None):
        super().__init__(*lstm_sizes(num_units), reuse=reuse, name="cudnn_compatible_lstm_cell")
        self._bias_initializer = bias_initializer or tf.zeros_initializer()

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, h = state
        gates = linear([inputs, h], 4 * self.output_size, True, self._bias_initializer)
        new_c, new_h = lstm_update(tf.split(gates, 4, axis=1), c, 0.0)
        return new_h, LSTMStateTuple(new_c, new_h)


class CudnnCompatibleGRUCell(Cell):
    """The GRU that cuDNN computes: the reset gate acts after the matrix of the state.

    Args:
        num_units: size of the state.
        reuse: whether existing variables are used.
        kernel_initializer: the scope's if None.
        gate_bias: initializer of the gates' bias; one if None.
        candidate_bias: initializer of the other biases; zero if None.
    """

    def __init__(
        self,
        num_units: int,
        reuse: Optional[bool] = None,
        kernel_initializer: Any = None,
        gate_bias: Any = None,
        candidate_bias: Any = None,
    ):
        super().__init__(num_units, num_units, reuse=reuse, name="cudnn_compatible_gru_cell")
        self._kernel_initializer = kernel_initializer
        self._gate_bias = gate_bias or tf.ones_initializer()
        self._bias = candidate_bias or tf.zeros_initializer()

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        kernel, size = self._kernel_initializer, self.output_size
        with tf.variable_scope("gates"):
            gates = linear([inputs, state], 2 * size, True, self._gate_bias, kernel)
        reset, update = tf.split(tf.sigmoid(gates), 2, axis=1)
        with tf.variable_scope("candidate"):
            with tf.variable_scope("input_projection"):
                from_input = linear(inputs, size, True, self._bias, kernel)
            with tf.variable_scope("hidden_projection"):
                from_state = linear(state, size, True, self._bias, kernel)
        candidate = tf.tanh(from_input + reset * from_state)
        state = (1 - update) * candidate + update * state
        return state, state


class _CudnnRNN(tf.layers.Layer):
    """A stack of recurrent layers over a whole sequence, with the variables of portable cells.

    They have the names and shapes under which contrib's layer saves its parameters. Each gate's
    matrices are initialised by themselves, as contrib does.

    Args:
        num_layers: number of layers.
        num_units: size of a layer's state.
        input_mode: `linear_input` or `auto_select`.
        direction: `unidirectional` or `bidirectional`.
        dropout: part of the inputs of each layer but the first that is dropped in training.
        seed: of the dropout and the default initializer.
        dtype: of the variables.
        kernel_initializer: of a gate's matrices; glorot_uniform if None.
        bias_initializer: of a gate's two biases; zeros if None.
        name: of the layer.
    """

    _states = 1  # tensors of a cell's state

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = "linear_input",
        direction: str = "unidirectional",
        dropout: float = 0.0,
        seed: Optional[int] = None,
        dtype: Any = tf.float32,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: Optional[str] = None,
    ):
        if direction not in _DIRECTIONS:
            raise ValueError("direction %r is not one of %s" % (direction, sorted(_DIRECTIONS)))
        if input_mode not in ("linear_input", "auto_select"):
            raise ValueError(
                "input_mode %r is not served on TensorFlow 2; linear_input and auto_select are"
                % input_mode
            )
        super().__init__(dtype=dtype, name=name)
        self.num_layers, self.num_units = num_layers, num_units
        self.input_mode, self.direction = input_mode, direction
        self.num_dirs, self.dropout, self.seed = _DIRECTIONS[direction], dropout, seed
        self._kernel = kernel_initializer or tf.glorot_uniform_initializer(seed=seed)
        bias = bias_initializer or tf.zeros_initializer()
        self._cells = [[self._cell(bias) for _ in range(self.num_dirs)] for _ in range(num_layers)]

    def _cell(self, bias: Any) -> Any:
        """A portable cell; `bias` initialises one bias of cuDNN's two for a gate."""
        raise NotImplementedError

    def state_shape(self, batch_size: int) -> Tuple[List[int], ...]:
        """The shapes of the states that a call takes and returns."""
        return ([self.num_layers * self.num_dirs, batch_size, self.num_units],) * self._states

    def call(
        self,
        inputs: tf.Tensor,
        initial_state: Any = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: Any = True,
    ) -> Tuple[tf.Tensor, Any]:
        """The outputs of the last layer, and the last states of all layers and directions."""
        axes = (1, 0) if time_major else (0, 1)
        batch = tf.shape(inputs)[axes[0]]
        if initial_state is None:
            shape = [self.num_layers * self.num_dirs, batch, self.num_units]
            initial_state = [tf.zeros(shape, inputs.dtype)] * self._states
        first = [tf.unstack(part, self.num_layers * self.num_dirs) for part in initial_state]
        options = {"sequence_length": sequence_lengths, "time_major": time_major}
        last: List[Any] = []
        scope = tf.get_variable_scope()
        with tf.variable_scope(scope, initializer=self._by_gate, auxiliary_name_scope=False):
            for layer, cells in enumerate(self._cells):
                if layer and self.dropout:
                    inputs = tf.layers.dropout(
                        inputs, self.dropout, seed=self.seed, training=training
                    )
                begin = layer * self.num_dirs
                states = [
                    self._to_cell([part[begin + number] for part in first])
                    for number in range(self.num_dirs)
                ]
                inputs, final = self._layer(layer, cells, inputs, states, options)
                last += [self._from_cell(state) for state in final]
        return inputs, tuple(tf.stack(parts) for parts in zip(*last))

    def _layer(
        self, layer: int, cells: List[Any], inputs: tf.Tensor, states: List[Any], options: Any
    ) -> Tuple[tf.Tensor, Any]:
        """The outputs of a layer, and its last states by direction."""
        if self.num_dirs == 1:
            scope = "rnn/multi_rnn_cell/cell_%d" % layer
            outputs, state = tf.nn.dynamic_rnn(
                cells[0], inputs, initial_state=states[0], scope=scope, **options
            )
            return outputs, [state]
        outputs, final = tf.nn.bidirectional_dynamic_rnn(
            cells[0],
            cells[1],
            inputs,
            initial_state_fw=states[0],
            initial_state_bw=states[1],
            scope="stack_bidirectional_rnn/cell_%d/bidirectional_rnn" % layer,
            **options,
        )
        return tf.concat(outputs, -1), final

    def _by_gate(self, shape: Any, dtype: Any = tf.float32, **_: Any) -> tf.Tensor:
        """Initial values of a cell's kernel: of each gate's matrices by themselves."""
        rows, columns = (int(size) for size in shape)
        parts = [rows - self.num_units, self.num_units] if rows > self.num_units else [rows]
        gates = [
            tf.concat([tf.transpose(self._kernel([self.num_units, n], dtype)) for n in parts], 0)
            for _ in range(columns // self.num_units)
        ]
        return tf.concat(gates, 1)

    def _to_cell(self, parts: List[tf.Tensor]) -> Any:
        """A cell's state, of the tensors that cuDNN has for it."""
        return parts[0]

    def _from_cell(self, state: Any) -> Tuple[tf.Tensor, ...]:
        return (state,)


def _summed(initial: Any) -> Any:
    """An initializer of the sum of the two biases that cuDNN has for a gate."""

    def initializer(shape: Any, dtype: Any = tf.float32, **_: Any) -> tf.Tensor:
        return initial(shape, dtype) + initial(shape, dtype)

    return initializer


class CudnnLSTM(_CudnnRNN):
    """A stack of LSTMs; its states are those of outputs, then those of cells."""

    _states = 2

    def _cell(self, bias: Any) -> Any:
        return CudnnCompatibleLSTMCell(self.num_units, bias_initializer=_summed(bias))

    def _to_cell(self, parts: List[tf.Tensor]) -> Any:
        return LSTMStateTuple(parts[1], parts[0])

    def _from_cell(self, state: Any) -> Tuple[tf.Tensor, ...]:
        return state.h, state.c


class CudnnGRU(_CudnnRNN):
    """A stack of GRUs."""

    def _cell(self, bias: Any) -> Any:
        return CudnnCompatibleGRUCell(self.num_units, gate_bias=_summed(bias), candidate_bias=bias)
