"""One model for each bucket of sequence lengths."""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.legacy_seq2seq.decoders import sequence_loss, sequence_loss_by_example
from graphmp.legacy.contrib.legacy_seq2seq.embedding import Result

__all__ = ["model_with_buckets"]


def model_with_buckets(
    encoder_inputs: List[tf.Tensor],
    decoder_inputs: List[tf.Tensor],
    targets: List[tf.Tensor],
    weights: List[tf.Tensor],
    buckets: Sequence[Tuple[int, int]],
    seq2seq: Callable[[List[tf.Tensor], List[tf.Tensor]], Result],
    softmax_loss_function: Optional[Callable[..., tf.Tensor]] = None,
    per_example_loss: bool = False,
    name: Optional[str] = None,
) -> Tuple[List[List[tf.Tensor]], List[tf.Tensor]]:
    """The outputs and the loss of a model for each bucket of lengths, with shared variables.

    Raises:
        ValueError: if a list is shorter than the last bucket.
    """
    for given, limit, what in (
        (encoder_inputs, buckets[-1][0], "encoder_inputs"),
        (targets, buckets[-1][1], "targets"),
        (weights, buckets[-1][1], "weights"),
    ):
        if len(given) < limit:
            raise ValueError(
                "Length of %s (%d) must be at least that of last bucket (%d)."
                % (what, len(given), limit)
            )
    outputs: List[List[tf.Tensor]] = []
    losses: List[tf.Tensor] = []
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    with tf.name_scope(name, "model_with_buckets"):
        for number, (source, target) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if number else None):
                made, _ = seq2seq(encoder_inputs[:source], decoder_inputs[:target])
            outputs.append(made)
            losses.append(
                loss(
                    *(made, targets[:target], weights[:target]),
                    softmax_loss_function=softmax_loss_function,
                )
            )
    return outputs, losses
