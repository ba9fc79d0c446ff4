"""The state of the cell that attends, and how it attends with one mechanism."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts

__all__ = ["AttentionWrapperState", "hardmax"]


class AttentionWrapperState(NamedTuple):
    """The state of `AttentionWrapper`; with a list of mechanisms the last three are tuples."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """The state with other fields, which take the static shapes of those they replace."""
        return tf.nest.map_structure(_shaped, self, self._replace(**kwargs))


def _shaped(old: Any, new: Any) -> Any:
    if not (tf.is_tensor(old) and tf.is_tensor(new)):
        return new
    if not old.shape.is_compatible_with(new.shape):
        raise ValueError(
            "The shape of the AttentionWrapperState is expected to be same as the one to clone."
            " %s: %s, %s: %s" % (old.name, old.shape, new.name, new.shape)
        )
    new.set_shape(old.shape)
    return new


def hardmax(logits: tf.Tensor, name: Optional[str] = None) -> tf.Tensor:
    """One-hot vectors of the largest logits."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits, name="logits")
        return tf.one_hot(tf.argmax(logits, -1), parts.dimension(logits, -1), dtype=logits.dtype)


def _compute_attention(
    attention_mechanism: Any, cell_output: tf.Tensor, attention_state: Any, attention_layer: Any
) -> Tuple[tf.Tensor, tf.Tensor, Any]:
    """Attention, alignments and the next state of one mechanism.

    Attention is the mean of the memory's values by alignments, after the layer if there is one.
    """
    alignments, state = attention_mechanism(cell_output, state=attention_state)
    context = tf.matmul(tf.expand_dims(alignments, 1), attention_mechanism.values)
    context = tf.squeeze(context, [1])
    if attention_layer is None:
        return context, alignments, state
    return attention_layer(tf.concat([cell_output, context], 1)), alignments, state
