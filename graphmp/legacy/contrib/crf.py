"""Linear-chain conditional random fields, as `tf.contrib.crf` has them.

Own code: TensorFlow 2 moved the package to TensorFlow Addons, which has ended. Algorithms: Lafferty
2001 (the forward algorithm), Viterbi 1967.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = [
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


def _mask(lengths: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """1 for the steps [batch, time] inside of a sequence, 0 after its end."""
    return tf.sequence_mask(tf.maximum(lengths, 0), tf.shape(like)[1], like.dtype)


def crf_unary_score(
    tag_indices: tf.Tensor, sequence_lengths: tf.Tensor, inputs: tf.Tensor
) -> tf.Tensor:
    """The sum [batch] of the potentials [batch, time, tags] of given tags [batch, time]."""
    inputs = tf.convert_to_tensor(inputs)
    chosen = tf.one_hot(tag_indices, tf.shape(inputs)[2], dtype=inputs.dtype)
    scores = tf.reduce_sum(inputs * chosen, 2)
    return tf.reduce_sum(scores * _mask(sequence_lengths, inputs), 1)


def crf_binary_score(
    tag_indices: tf.Tensor, sequence_lengths: tf.Tensor, transition_params: tf.Tensor
) -> tf.Tensor:
    """The sum [batch] of the transition scores [tags, tags] between neighbours among the tags."""
    transition_params = tf.convert_to_tensor(transition_params)
    tags = tf.convert_to_tensor(tag_indices)
    count = tf.cast(tf.shape(transition_params)[0], tags.dtype)
    pairs = tags[:, :-1] * count + tags[:, 1:]
    scores = tf.gather(tf.reshape(transition_params, [-1]), pairs)
    inside = tf.sequence_mask(tf.maximum(sequence_lengths - 1, 0), tf.shape(pairs)[1], scores.dtype)
    return tf.reduce_sum(scores * inside, 1)


def crf_sequence_score(
    inputs: tf.Tensor,
    tag_indices: tf.Tensor,
    sequence_lengths: tf.Tensor,
    transition_params: tf.Tensor,
) -> tf.Tensor:
    """The score [batch] of tag sequences that isn't normalised."""
    return crf_unary_score(tag_indices, sequence_lengths, inputs) + crf_binary_score(
        tag_indices, sequence_lengths, transition_params
    )


def crf_multitag_sequence_score(
    inputs: tf.Tensor,
    tag_bitmap: tf.Tensor,
    sequence_lengths: tf.Tensor,
    transition_params: tf.Tensor,
) -> tf.Tensor:
    """The log of the summed scores of all sequences that a bitmap [batch, time, tags] allows."""
    inputs = tf.convert_to_tensor(inputs)
    allowed = tf.cast(tag_bitmap, tf.bool)
    forbidden = tf.fill(tf.shape(inputs), tf.constant(-np.inf, inputs.dtype))
    return crf_log_norm(tf.where(allowed, inputs, forbidden), sequence_lengths, transition_params)


def crf_log_norm(
    inputs: tf.Tensor, sequence_lengths: tf.Tensor, transition_params: tf.Tensor
) -> tf.Tensor:
    """The log of the partition function, [batch]; 0 for empty sequences."""
    inputs = tf.convert_to_tensor(inputs)
    transitions = tf.expand_dims(tf.convert_to_tensor(transition_params), 0)

    def step(alphas: tf.Tensor, item: Tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        potentials, inside = item
        new = potentials + tf.reduce_logsumexp(tf.expand_dims(alphas, 2) + transitions, 1)
        return tf.where(inside, new, alphas)

    alphas = _scanned(step, inputs[:, 0], inputs, sequence_lengths)[-1]
    norm = tf.reduce_logsumexp(alphas, 1)
    return tf.where(tf.less_equal(sequence_lengths, 0), tf.zeros_like(norm), norm)


def _scanned(step: Any, first: tf.Tensor, inputs: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """States [time, batch, tags] of a recursion that starts with the first step's.

    `step` gets the potentials and whether to take the step: not for the first, nor after the end.
    """
    shape = tf.shape(inputs)
    taken = tf.sequence_mask(lengths, shape[1]) & tf.expand_dims(tf.range(shape[1]) > 0, 0)
    taken = tf.tile(tf.expand_dims(tf.transpose(taken), 2), [1, 1, shape[2]])
    return tf.scan(step, (tf.transpose(inputs, [1, 0, 2]), taken), initializer=first)


def crf_log_likelihood(
    inputs: tf.Tensor,
    tag_indices: tf.Tensor,
    sequence_lengths: tf.Tensor,
    transition_params: Optional[tf.Tensor] = None,
) -> Tuple[tf.Tensor, tf.Tensor]:
    """The log-likelihood [batch] of tag sequences, and the transition scores [tags, tags].

    These are the variable `transitions` of the current scope unless given.
    """
    inputs = tf.convert_to_tensor(inputs)
    tags = inputs.shape.as_list()[2]
    if transition_params is None:
        transition_params = tf.get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    norm = crf_log_norm(inputs, sequence_lengths, transition_params)
    return score - norm, transition_params


def crf_decode(
    potentials: tf.Tensor, transition_params: tf.Tensor, sequence_length: tf.Tensor
) -> Tuple[tf.Tensor, tf.Tensor]:
    """The best tags [batch, time], int32, and their scores [batch]. Tags after the end are 0."""
    potentials = tf.convert_to_tensor(potentials)
    transitions = tf.expand_dims(tf.convert_to_tensor(transition_params), 0)
    length = tf.cast(sequence_length, tf.int32)

    def forward(scores: tf.Tensor, item: Tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        best = tf.reduce_max(tf.expand_dims(scores, 2) + transitions, 1)
        return tf.where(item[1], item[0] + best, scores)

    scores = _scanned(forward, potentials[:, 0], potentials, length)
    last = tf.argmax(scores[-1], 1, output_type=tf.int32)
    steps = tf.range(tf.shape(potentials)[1])
    columns = tf.transpose(transition_params)

    def backward(tag: tf.Tensor, item: Tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        before = tf.argmax(item[0] + tf.gather(columns, tag), 1, output_type=tf.int32)
        return tf.where(tf.less(item[1] + 1, length), before, tag)

    tags = tf.transpose(tf.scan(backward, (scores, steps), initializer=last, reverse=True))
    inside = tf.sequence_mask(tf.maximum(length, 1), tf.shape(potentials)[1], tf.int32)
    return tags * inside, tf.reduce_max(scores[-1], 1)


def viterbi_decode(score: Any, transition_params: Any) -> Tuple[List[int], Any]:
    """The best tags of one sequence [time, tags], and their score, with NumPy."""
    trellis, pointers = np.array(score[0], copy=True), []
    for potentials in np.asarray(score)[1:]:
        candidates = np.expand_dims(trellis, 1) + transition_params
        pointers.append(np.argmax(candidates, 0))
        trellis = potentials + np.max(candidates, 0)
    tags = [int(np.argmax(trellis))]
    for pointer in reversed(pointers):
        tags.append(int(pointer[tags[-1]]))
    return tags[::-1], np.max(trellis)
