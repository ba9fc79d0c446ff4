"""The simpler functions of `tf.contrib.legacy_seq2seq`: unrolled decoders and their losses.

Own code: TensorFlow 2 has none of them.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

__all__ = ["basic_rnn_seq2seq", "rnn_decoder", "sequence_loss", "sequence_loss_by_example"]


def rnn_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    cell: Any,
    loop_function: Optional[Callable[[tf.Tensor, int], tf.Tensor]] = None,
    scope: Any = None,
) -> Tuple[List[tf.Tensor], Any]:
    """Run a cell over a list of inputs.

    With `loop_function` each input except the first is made from the previous output.
    """
    outputs: List[tf.Tensor] = []
    state = initial_state
    with tf.variable_scope(scope or "rnn_decoder"):
        for step, inputs in enumerate(decoder_inputs):
            if step and loop_function is not None:
                with tf.variable_scope("loop_function", reuse=True):
                    inputs = loop_function(outputs[-1], step)
            if step:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(inputs, state)
            outputs.append(output)
    return outputs, state


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> Tuple[List[tf.Tensor], Any]:
    """Encode with one copy of the cell and decode, from its final state, with another."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def sequence_loss_by_example(
    logits: List[tf.Tensor],
    targets: List[tf.Tensor],
    weights: List[tf.Tensor],
    average_across_timesteps: bool = True,
    softmax_loss_function: Optional[Callable[..., tf.Tensor]] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Weighted cross-entropy of each example, [batch], over lists with an entry for each step."""
    if not len(logits) == len(targets) == len(weights):
        raise ValueError(
            "Lengths of logits, weights, and targets must be the same %d, %d, %d."
            % (len(logits), len(weights), len(targets))
        )
    with tf.name_scope(name, "sequence_loss_by_example", logits + targets + weights):
        if softmax_loss_function is None:
            softmax_loss_function = tf.nn.sparse_softmax_cross_entropy_with_logits
            targets = [tf.reshape(target, [-1]) for target in targets]
        steps = [
            softmax_loss_function(labels=target, logits=logit) * weight
            for logit, target, weight in zip(logits, targets, weights)
        ]
        total = tf.add_n(steps)
        return total / (tf.add_n(weights) + 1e-12) if average_across_timesteps else total


def sequence_loss(
    logits: List[tf.Tensor],
    targets: List[tf.Tensor],
    weights: List[tf.Tensor],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Optional[Callable[..., tf.Tensor]] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """`sequence_loss_by_example`, summed or averaged over the examples."""
    with tf.name_scope(name, "sequence_loss", logits + targets + weights):
        cost = tf.reduce_sum(
            sequence_loss_by_example(
                logits, targets, weights, average_across_timesteps, softmax_loss_function
            )
        )
        return cost / tf.cast(tf.shape(targets[0])[0], cost.dtype) if average_across_batch else cost
