"""One step of a beam search."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts
from graphmp.legacy.contrib.seq2seq.beam_scores import (
    _get_scores,
    _mask_probs,
    get_attention_probs,
)

__all__ = ["BeamSearchDecoderOutput", "BeamSearchDecoderState"]


class BeamSearchDecoderOutput(NamedTuple):
    """Of each beam after a step: its score, its last word, and the beam that it was before."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class BeamSearchDecoderState(NamedTuple):
    """The state of a search; all but the cell's state is [batch, beams, ...]."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any


def _beam_search_step(
    time: Any,
    logits: tf.Tensor,
    next_cell_state: Any,
    beam_state: BeamSearchDecoderState,
    batch_size: Any,
    beam_width: int,
    end_token: Any,
    length_penalty_weight: Any,
    coverage_penalty_weight: Any,
) -> Tuple[BeamSearchDecoderOutput, BeamSearchDecoderState]:
    """The best beams after a word more, of logits [batch, beams, words].

    An end counts in a beam's length from the next step on.
    """
    open_beams = ~beam_state.finished
    words = parts.dimension(logits, -1)
    log_probs = _mask_probs(tf.nn.log_softmax(logits), end_token, beam_state.finished)
    log_probs = tf.expand_dims(beam_state.log_probs, 2) + log_probs
    covered = _coverage(next_cell_state, beam_state, open_beams, coverage_penalty_weight)
    scores = _get_scores(
        log_probs=log_probs,
        sequence_lengths=_lengths(beam_state, open_beams, end_token, words),
        length_penalty_weight=length_penalty_weight,
        coverage_penalty_weight=coverage_penalty_weight,
        finished=beam_state.finished,
        accumulated_attention_probs=covered,
    )
    best, places = tf.nn.top_k(tf.reshape(scores, [batch_size, -1]), k=beam_width)
    for result in (best, places):
        result.set_shape([parts.static_value(batch_size), beam_width])
    beams = _Gather(batch_size, beam_width, tf.cast(places // words, tf.int32))
    ids = tf.cast(tf.floormod(places, words), tf.int32)
    done = beams(beam_state.finished)
    output = BeamSearchDecoderOutput(scores=best, predicted_ids=ids, parent_ids=beams.parents)
    return output, BeamSearchDecoderState(
        cell_state=tf.nest.map_structure(beams.state, next_cell_state),
        log_probs=_tensor_gather_helper(places, log_probs, batch_size, beam_width * words, [-1]),
        lengths=beams(beam_state.lengths) + tf.cast(~done, tf.int64),
        finished=tf.logical_or(done, tf.equal(ids, end_token), name="next_beam_finished"),
        accumulated_attention_probs=() if covered is None else beams.state(covered),
    )


def _coverage(state: Any, beam_state: Any, open_beams: Any, weight: Any) -> Optional[tf.Tensor]:
    """The sum over steps of each beam's alignments."""
    probabilities = get_attention_probs(state, weight)
    if probabilities is None:
        return None
    counted = tf.cast(tf.expand_dims(open_beams, 2), probabilities.dtype)
    return beam_state.accumulated_attention_probs + probabilities * counted


def _lengths(beam_state: Any, open_beams: Any, end_token: Any, words: Any) -> tf.Tensor:
    """The lengths of all continuations, [batch, beams, words]."""
    added = tf.one_hot(
        tf.fill(tf.shape(open_beams), end_token),
        words,
        on_value=np.int64(0),
        off_value=np.int64(1),
        dtype=tf.int64,
    )
    added *= tf.expand_dims(tf.cast(open_beams, tf.int64), 2)
    return tf.expand_dims(beam_state.lengths, 2) + added


class _Gather:
    """Takes what belongs to the parent of each beam."""

    def __init__(self, batch_size: Any, beam_width: int, parents: tf.Tensor):
        self._batch_size, self._beam_width, self.parents = batch_size, beam_width, parents

    def __call__(self, values: Any, shape: Any = (-1,)) -> tf.Tensor:
        return _tensor_gather_helper(
            self.parents, values, self._batch_size, self._beam_width, list(shape)
        )

    def state(self, values: Any) -> Any:
        """A part of a state; arrays and what has less than two axes stay."""
        return _maybe_tensor_gather_helper(
            self.parents,
            values,
            self._batch_size,
            self._beam_width,
            [self._batch_size * self._beam_width, -1],
        )


def _maybe_tensor_gather_helper(
    gather_indices: Any, gather_from: Any, batch_size: Any, range_size: Any, gather_shape: List[Any]
) -> Any:
    """`_tensor_gather_helper`, unless the values are an array or have too few axes."""
    if parts.is_array(gather_from):
        return gather_from
    if parts.known_rank(gather_from) < len(gather_shape):
        return gather_from
    return _tensor_gather_helper(gather_indices, gather_from, batch_size, range_size, gather_shape)


def _tensor_gather_helper(
    gather_indices: Any,
    gather_from: tf.Tensor,
    batch_size: Any,
    range_size: Any,
    gather_shape: List[Any],
    name: Optional[str] = None,
) -> tf.Tensor:
    """Values at indices that count within each entry of the batch.

    The values are reshaped to `gather_shape` first, whose first axis has `range_size` rows for each
    entry.
    """
    with tf.name_scope(name, "tensor_gather_helper"):
        starts = tf.expand_dims(tf.range(batch_size) * range_size, 1)
        rows = tf.gather(
            tf.reshape(gather_from, gather_shape), tf.reshape(gather_indices + starts, [-1])
        )
        axes = 1 + len(gather_shape)
        output = tf.reshape(rows, tf.shape(gather_from)[:axes], name="output")
        output.set_shape(
            tf.TensorShape([parts.static_value(batch_size)]).concatenate(gather_from.shape[1:axes])
        )
        return output
