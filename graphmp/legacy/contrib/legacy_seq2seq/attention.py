"""The decoder with attention of `tf.contrib.legacy_seq2seq`.

Own code, after Vinyals et al., "Grammar as a Foreign Language" (arXiv 1412.7449).
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import linear

__all__ = ["attention_decoder"]


class _Heads:
    """Heads that read from states, [batch, length, size]; the variables of each are numbered."""

    def __init__(self, states: tf.Tensor, number: int):
        self._size = states.shape.as_list()[2]
        self._hidden = tf.expand_dims(states, 2)
        self._features, self._vectors = [], []
        for head in range(number):
            matrix = tf.get_variable("AttnW_%d" % head, [1, 1, self._size, self._size])
            self._features.append(tf.nn.conv2d(self._hidden, matrix, [1, 1, 1, 1], "SAME"))
            self._vectors.append(tf.get_variable("AttnV_%d" % head, [self._size]))

    def zeros(self, batch: tf.Tensor, dtype: Any) -> List[tf.Tensor]:
        """The attention before the first step."""
        found = [tf.zeros(tf.stack([batch, self._size]), dtype) for _ in self._features]
        for value in found:
            value.set_shape([None, self._size])
        return found

    def read(self, state: Any) -> List[tf.Tensor]:
        """The attention of each head with a cell's state."""
        query = tf.concat(tf.nest.flatten(state), 1)
        found = []
        for head, (features, vector) in enumerate(zip(self._features, self._vectors)):
            with tf.variable_scope("Attention_%d" % head):
                asked = linear(query, self._size, True)[:, None, None, :]
            scores = tf.reduce_sum(vector * tf.tanh(features + asked), [2, 3])
            weights = tf.nn.softmax(scores)[:, :, None, None]
            found.append(tf.reduce_sum(weights * self._hidden, [1, 2]))
        return found


def attention_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    attention_states: tf.Tensor,
    cell: Any,
    output_size: Optional[int] = None,
    num_heads: int = 1,
    loop_function: Optional[Callable[[tf.Tensor, int], tf.Tensor]] = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Tuple[List[tf.Tensor], Any]:
    """Run a cell over a list of inputs, each joined with what heads read from states.

    With `loop_function` each input except the first is made from the previous output.

    Raises:
        ValueError: without inputs or heads, or if a size isn't known.
    """
    _check(decoder_inputs, num_heads, attention_states)
    outputs: List[tf.Tensor] = []
    state = initial_state
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as opened:
        heads = _Heads(attention_states, num_heads)
        read = heads.zeros(tf.shape(decoder_inputs[0])[0], dtype or opened.dtype)
        if initial_state_attention:
            read = heads.read(initial_state)
        for step, inputs in enumerate(decoder_inputs):
            if step:
                tf.get_variable_scope().reuse_variables()
            if step and loop_function is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    inputs = loop_function(outputs[-1], step)
            joined = linear([inputs, *read], inputs.shape.as_list()[1], True)
            output, state = cell(joined, state)
            again = True if initial_state_attention else None
            with tf.variable_scope(tf.get_variable_scope(), reuse=again):
                read = heads.read(state)
            with tf.variable_scope("AttnOutputProjection"):
                outputs.append(linear([output, *read], output_size or cell.output_size, True))
    return outputs, state


def _check(inputs: Sequence[tf.Tensor], num_heads: int, states: tf.Tensor) -> None:
    if not inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if states.shape[2:].as_list() in ([], [None]):
        raise ValueError("Shape[2] of attention_states must be known: %s" % states.shape)
    if any(row.shape.as_list()[1] is None for row in inputs):
        raise ValueError("Could not infer input size from input")
