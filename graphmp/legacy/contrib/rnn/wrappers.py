"""The wrappers of `tf.contrib.rnn` around other cells that `tf.nn.rnn_cell` lacks."""

from __future__ import annotations

import math
from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import Activation, Cell, linear, variable

__all__ = [
    "AttentionCellWrapper",
    "CompiledWrapper",
    "EmbeddingWrapper",
    "HighwayWrapper",
    "InputProjectionWrapper",
    "OutputProjectionWrapper",
]


class _CellWrapper(Cell):
    """A cell around another one, with its sizes by default, and its zero state."""

    def __init__(self, cell: Any, output_size: Optional[int] = None, reuse: Optional[bool] = None):
        super().__init__(cell.state_size, output_size or cell.output_size, reuse)
        self._cell = cell

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)


class EmbeddingWrapper(_CellWrapper):
    """Looks ids up in the variable `embedding` before the cell."""

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: Optional[bool] = None,
    ):
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                "Both embedding_classes and embedding_size must be > 0: %d, %d."
                % (embedding_classes, embedding_size)
            )
        super().__init__(cell, reuse=reuse)
        self._shape, self._initializer = [embedding_classes, embedding_size], initializer

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        """Without an initializer the embeddings are uniform with variance 1."""
        dtype = (state[0] if isinstance(state, tuple) else state).dtype
        initializer = (
            self._initializer
            or tf.get_variable_scope().initializer
            or tf.random_uniform_initializer(-math.sqrt(3), math.sqrt(3))
        )
        with tf.device("/cpu:0"):
            embedding = tf.get_variable("embedding", list(self._shape), dtype, initializer)
            embedded = tf.nn.embedding_lookup(embedding, tf.reshape(inputs, [-1]))
        return self._cell(embedded, state)


class InputProjectionWrapper(_CellWrapper):
    """A linear map, and an optional activation, before the cell."""

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: Optional[Activation] = None,
        input_size: Any = None,
        reuse: Optional[bool] = None,
    ):
        super().__init__(cell, reuse=reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        projected = linear(inputs, self._num_proj, True)
        return self._cell(self._activation(projected) if self._activation else projected, state)


class OutputProjectionWrapper(_CellWrapper):
    """A linear map, and an optional activation, after the cell."""

    def __init__(
        self,
        cell: Any,
        output_size: int,
        activation: Optional[Activation] = None,
        reuse: Optional[bool] = None,
    ):
        if output_size < 1:
            raise ValueError("Parameter output_size must be > 0: %d." % output_size)
        super().__init__(cell, output_size, reuse)
        self._activation = activation

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        output, new_state = self._cell(inputs, state)
        projected = linear(output, self.output_size, True)
        return self._activation(projected) if self._activation else projected, new_state


class HighwayWrapper(_CellWrapper):
    """Carries part of the cell's input past it (Srivastava 2015).

    Input and output have the same shape.
    """

    def __init__(
        self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0
    ):
        super().__init__(cell)
        self._couple, self._carry_bias_init = couple_carry_transform_gates, carry_bias_init

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Tuple[Any, Any]:
        """Opens no scope of its own: `carry_w` and the others are beside the cell's variables."""
        outputs, new_state = self._cell(inputs, state, scope=scope)
        return tf.nest.map_structure(self._highway, inputs, outputs), new_state

    def _highway(self, inputs: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        inputs.shape.assert_is_compatible_with(output.shape)
        carry = self._gate(inputs, "carry", self._carry_bias_init)
        transform = (
            1 - carry if self._couple else self._gate(inputs, "transform", -self._carry_bias_init)
        )
        return inputs * carry + output * transform

    def _gate(self, inputs: tf.Tensor, name: str, bias: float) -> tf.Tensor:
        size = inputs.shape.as_list()[1]
        w, b = (
            variable(name + "_w", [size, size], inputs),
            variable(name + "_b", [size], inputs, bias),
        )
        return tf.sigmoid(tf.nn.xw_plus_b(inputs, w, b))


class CompiledWrapper(_CellWrapper):
    """Marks the cell's ops for XLA."""

    def __init__(self, cell: Any, compile_stateful: bool = False):
        super().__init__(cell)
        self._compile_stateful = compile_stateful

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Tuple[Any, Any]:
        """Opens no scope of its own.

        Random ops and variables are stateful and excluded by default.
        """
        with tf.xla.experimental.jit_scope(compile_ops=self._compile_stateful or _is_stateless):
            return self._cell(inputs, state, scope=scope)


def _is_stateless(node: Any) -> bool:
    return not tf.get_default_graph().get_operation_by_name(node.name).op_def.is_stateful


class AttentionCellWrapper(_CellWrapper):
    """Attends to the last `attn_length` outputs of the cell (Bahdanau 2014, over its own past)."""

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: Optional[int] = None,
        attn_vec_size: Optional[int] = None,
        input_size: Optional[int] = None,
        state_is_tuple: bool = True,
        reuse: Optional[bool] = None,
    ):
        if isinstance(cell.state_size, tuple) and not state_is_tuple:
            raise ValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. State size"
                " is: %s" % str(cell.state_size)
            )
        if attn_length <= 0:
            raise ValueError("attn_length should be greater than zero, got %s" % attn_length)
        size = attn_size or cell.output_size
        super().__init__(cell, size, reuse)
        self._length, self._vec_size, self._input_size = (
            attn_length,
            attn_vec_size or size,
            input_size,
        )
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        sizes = (self._cell.state_size, self.output_size, self.output_size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return Cell.zero_state(self, batch_size, dtype)

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        size = self.output_size
        if not self._state_is_tuple:
            state = tf.split(state, [self._cell.state_size, size, size * self._length], axis=1)
        cell_state, attention, past = state
        mixed = linear([inputs, attention], self._input_size or inputs.shape.as_list()[1], True)
        cell_output, new_state = self._cell(mixed, cell_state)
        past = tf.reshape(past, [-1, self._length, size])
        new_attention = self._attend(tf.concat(tf.nest.flatten(new_state), 1), past)
        with tf.variable_scope("attn_output_projection"):
            output = linear([cell_output, new_attention], size, True)
        new_past = tf.reshape(
            tf.concat([past[:, 1:], tf.expand_dims(output, 1)], 1), [-1, self._length * size]
        )
        state = (new_state, new_attention, new_past)
        return output, state if self._state_is_tuple else tf.concat(state, 1)

    def _attend(self, query: tf.Tensor, past: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope("attention"):
            k = variable("attn_w", [1, 1, self.output_size, self._vec_size], query)
            v = variable("attn_v", [self._vec_size], query)
            hidden = tf.expand_dims(past, 2)
            keys = tf.nn.conv2d(hidden, k, [1, 1, 1, 1], "SAME")
            y = tf.reshape(linear(query, self._vec_size, True), [-1, 1, 1, self._vec_size])
            weights = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(keys + y), [2, 3]))
            return tf.reduce_sum(tf.reshape(weights, [-1, self._length, 1, 1]) * hidden, [1, 2])
