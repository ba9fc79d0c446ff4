"""The cell that attends to memories."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts
from graphmp.legacy.contrib.seq2seq.attention import dense
from graphmp.legacy.contrib.seq2seq.attention_checks import (
    CALL,
    CONSTRUCTION,
    ZERO_STATE,
    batch_checks,
    layer_sizes,
    mechanisms_of,
)
from graphmp.legacy.contrib.seq2seq.attention_state import (
    AttentionWrapperState,
    _compute_attention,
)

__all__ = ["AttentionWrapper"]


class AttentionWrapper(tf.nn.rnn_cell.RNNCell):
    """A cell whose inputs are joined with the attention of the step before.

    Its output is the attention, or that of the cell without `output_attention`.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Optional[Callable[[Any, Any], Any]] = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: Optional[str] = None,
        attention_layer: Any = None,
        attention_fn: Optional[Callable[..., Any]] = None,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        parts.check_cell(cell)
        self._is_multi, mechanisms = mechanisms_of(attention_mechanism)
        if cell_input_fn is not None and not callable(cell_input_fn):
            raise TypeError("cell_input_fn must be callable, saw type: %s" % type(cell_input_fn))
        self._cell = cell
        self._cell_input_fn = cell_input_fn or _joined
        self._attention_fn = attention_fn or _compute_attention
        self._alignment_history, self._output_attention = alignment_history, output_attention
        layers, sizes = _layers(cell, mechanisms, attention_layer_size, attention_layer)
        self._attention_layer_size = sum(sizes)
        # Keras would replace tuples, and the states in them, by copies of another type.
        object.__setattr__(self, "_attention_mechanisms", mechanisms)
        object.__setattr__(self, "_attention_layers", layers)
        object.__setattr__(self, "_initial_cell_state", self._checked(initial_cell_state))

    def _checked(self, state: Any) -> Any:
        if state is None:
            return None
        with tf.name_scope(None, "AttentionWrapperInit"):
            batch_size = parts.dimension(tf.nest.flatten(state)[-1], 0)
            with tf.control_dependencies(self._batch_size_checks(batch_size, CONSTRUCTION)):
                return tf.nest.map_structure(tf.identity, state)

    def _batch_size_checks(self, batch_size: Any, error_message: str) -> List[Any]:
        return batch_checks(
            self._attention_mechanisms, batch_size, error_message.replace("%s", str(self.name))
        )

    def _item_or_tuple(self, seq: Any) -> Any:
        """All of a sequence for a list of mechanisms, else its only item."""
        items = tuple(seq)
        return items if self._is_multi else items[0]

    @property
    def output_size(self) -> Any:
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        sizes = [mechanism.alignments_size for mechanism in self._attention_mechanisms]
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tf.TensorShape([]),
            attention=self._attention_layer_size,
            alignments=self._item_or_tuple(sizes),
            attention_state=self._item_or_tuple(
                mechanism.state_size for mechanism in self._attention_mechanisms
            ),
            alignment_history=self._item_or_tuple(
                size if self._alignment_history else () for size in sizes
            ),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            with tf.control_dependencies(self._batch_size_checks(batch_size, ZERO_STATE)):
                cell_state = tf.nest.map_structure(tf.identity, cell_state)
            mechanisms = self._attention_mechanisms
            alignments = [one.initial_alignments(batch_size, dtype) for one in mechanisms]
            return AttentionWrapperState(
                cell_state=cell_state,
                time=tf.zeros([], tf.int32),
                attention=parts.zeros(self._attention_layer_size, batch_size, dtype),
                alignments=self._item_or_tuple(alignments),
                attention_state=self._item_or_tuple(
                    one.initial_state(batch_size, dtype) for one in mechanisms
                ),
                alignment_history=self._item_or_tuple(
                    _history(one) if self._alignment_history else () for one in alignments
                ),
            )

    def call(self, inputs: Any, state: Any) -> Tuple[Any, AttentionWrapperState]:
        """Run the cell, then attend with its output as the query."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(
                "Expected state to be instance of AttentionWrapperState. Received type %s instead."
                % type(state)
            )
        output, cell_state = self._cell(
            self._cell_input_fn(inputs, state.attention), state.cell_state
        )
        checks = self._batch_size_checks(parts.dimension(output, 0), CALL)
        with tf.control_dependencies(checks):
            output = tf.identity(output, name="checked_cell_output")
        attention, alignments, states, history = self._attend(output, state)
        return (
            attention if self._output_attention else output,
            AttentionWrapperState(
                time=state.time + 1,
                cell_state=cell_state,
                attention=attention,
                attention_state=self._item_or_tuple(states),
                alignments=self._item_or_tuple(alignments),
                alignment_history=self._item_or_tuple(history),
            ),
        )

    def _attend(self, query: tf.Tensor, state: Any) -> Tuple[Any, List[Any], List[Any], List[Any]]:
        """The attention of all mechanisms, and lists of their alignments, states and histories."""
        before, history = state.attention_state, state.alignment_history
        if not self._is_multi:
            before, history = [before], [history]
        found, alignments, states, written = [], [], [], []
        for index, mechanism in enumerate(self._attention_mechanisms):
            layer = self._attention_layers[index] if self._attention_layers else None
            one, aligned, after = self._attention_fn(mechanism, query, before[index], layer)
            found.append(one)
            alignments.append(aligned)
            states.append(after)
            kept = self._alignment_history
            written.append(history[index].write(state.time, aligned) if kept else ())
        return tf.concat(found, 1), alignments, states, written


def _joined(inputs: Any, attention: tf.Tensor) -> tf.Tensor:
    return tf.concat([inputs, attention], -1)


def _history(alignments: tf.Tensor) -> tf.TensorArray:
    return tf.TensorArray(
        alignments.dtype, size=0, dynamic_size=True, element_shape=alignments.shape
    )


def _layers(cell: Any, mechanisms: Any, size: Any, layer: Any) -> Tuple[Any, List[int]]:
    """The layers after the contexts, None if there are none, and the sizes of all attention."""
    sizes, given = layer_sizes(mechanisms, size, layer)
    if sizes is not None:
        made = tuple(
            dense(one, "attention_layer", mechanism.dtype)
            for one, mechanism in zip(sizes, mechanisms)
        )
        return made, sizes
    depths = [tf.compat.dimension_value(one.values.shape[-1]) for one in mechanisms]
    if given is None:
        return None, depths
    shapes = [
        one.compute_output_shape([None, cell.output_size + depth])
        for one, depth in zip(given, depths)
    ]
    return given, [tf.TensorShape(shape).as_list()[-1] for shape in shapes]
