"""Scores of beams: probabilities, with penalties of length and coverage.

After Wu et al., "Google's Neural Machine Translation System" (arXiv 1609.08144).
"""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq.attention_state import AttentionWrapperState
from graphmp.legacy.contrib.seq2seq.parts import check_rank

__all__: List[str] = []


def attention_probs_from_attn_state(attention_state: Any) -> tf.Tensor:
    """The alignments of one wrapper, averaged over its mechanisms."""
    return _mean(attention_state.alignments)


def get_attention_probs(next_cell_state: Any, coverage_penalty_weight: Any) -> Optional[tf.Tensor]:
    """The alignments of all wrappers in a state, averaged; None without a coverage penalty.

    Raises:
        ValueError: there is a penalty and no wrapper.
    """
    if coverage_penalty_weight == 0.0:
        return None
    states = next_cell_state
    if isinstance(states, AttentionWrapperState) or not isinstance(states, tuple):
        states = (states,)
    found = [
        attention_probs_from_attn_state(state)
        for state in states
        if isinstance(state, AttentionWrapperState)
    ]
    if not found:
        raise ValueError("coverage_penalty_weight must be 0.0 if no cell is attentional.")
    return _mean(tuple(found))


def _mean(tensors: Any) -> tf.Tensor:
    if not isinstance(tensors, tuple):
        return tensors
    return tensors[0] if len(tensors) == 1 else tf.reduce_mean(tf.stack(tensors, -1), -1)


def _get_scores(
    log_probs: tf.Tensor,
    sequence_lengths: tf.Tensor,
    length_penalty_weight: Any,
    coverage_penalty_weight: Any,
    finished: tf.Tensor,
    accumulated_attention_probs: Any,
) -> tf.Tensor:
    """Scores [batch, beams, words]; coverage only counts in finished beams."""
    penalty = _length_penalty(sequence_lengths, length_penalty_weight)
    scores = log_probs / tf.cast(penalty, log_probs.dtype)
    weight = tf.convert_to_tensor(coverage_penalty_weight, name="coverage_penalty_weight")
    check_rank("coverage_penalty_weight", weight, 0)
    if tf.get_static_value(weight) == 0.0:
        return scores
    if accumulated_attention_probs is None:
        raise ValueError(
            "accumulated_attention_probs can be None only if coverage penalty is disabled."
        )
    covered = accumulated_attention_probs
    # What was never attended to is padding.
    covered = tf.where(tf.equal(covered, 0.0), tf.ones_like(covered), covered)
    coverage = tf.reduce_sum(tf.log(tf.minimum(covered, 1.0)), 2)
    coverage *= tf.cast(finished, coverage.dtype)
    return scores + tf.expand_dims(tf.cast(weight, coverage.dtype) * coverage, 2)


def _length_penalty(sequence_lengths: tf.Tensor, penalty_factor: Any) -> Any:
    """((5 + length) / 6) ** factor."""
    factor = tf.convert_to_tensor(penalty_factor, name="penalty_factor")
    check_rank("penalty_factor", factor, 0)
    if tf.get_static_value(factor) == 0:
        return 1.0
    return tf.div((5.0 + tf.cast(sequence_lengths, tf.float32)) ** factor, 6.0**factor)


def _mask_probs(probs: tf.Tensor, eos_token: Any, finished: tf.Tensor) -> tf.Tensor:
    """Log-probabilities of words: in a finished beam, zero for the end and least for others."""
    words = tf.shape(probs)[2]
    row = tf.one_hot(eos_token, words, dtype=probs.dtype, on_value=0.0, off_value=probs.dtype.min)
    return tf.where(
        tf.tile(tf.expand_dims(finished, 2), [1, 1, words]), tf.zeros_like(probs) + row, probs
    )
