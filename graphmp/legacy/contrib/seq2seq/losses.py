"""The loss of `tf.contrib.seq2seq`."""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

__all__ = ["sequence_loss"]


def sequence_loss(
    logits: tf.Tensor,
    targets: tf.Tensor,
    weights: tf.Tensor,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Optional[Callable[..., tf.Tensor]] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Weighted cross-entropy of logits [batch, time, classes] and targets [batch, time].

    It is averaged or summed over either axis. An average divides by the sum of the weights, a sum
    by the number of nonzero weights. Averaging over one axis doesn't reduce the other, even if a
    sum over it is requested.
    """
    for tensor, rank in ((logits, 3), (targets, 2), (weights, 2)):
        if len(tensor.shape) != rank:
            raise ValueError(
                "Logits must be [batch, time, classes], targets and weights [batch, time]; found %s"
                % tensor
            )
    if (average_across_timesteps and sum_over_timesteps) or (
        average_across_batch and sum_over_batch
    ):
        raise ValueError("An axis cannot be both averaged and summed over.")
    averaged = [
        axis
        for axis, wanted in enumerate((average_across_batch, average_across_timesteps))
        if wanted
    ]
    summed = [axis for axis, wanted in enumerate((sum_over_batch, sum_over_timesteps)) if wanted]
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        loss_function: Any = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        losses = loss_function(
            labels=tf.reshape(targets, [-1]), logits=tf.reshape(logits, [-1, tf.shape(logits)[2]])
        )
        losses = tf.reshape(losses * tf.reshape(weights, [-1]), tf.shape(logits)[:2])
        if not averaged and not summed:
            return losses
        size = (
            tf.reduce_sum(weights, averaged)
            if averaged
            else tf.cast(tf.count_nonzero(weights, summed), losses.dtype)
        )
        return tf.div_no_nan(tf.reduce_sum(losses, averaged or summed), size)
