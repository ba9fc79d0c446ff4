"""The decoder that searches with beams."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts
from graphmp.legacy.contrib.seq2seq.beam_batches import BeamBatches
from graphmp.legacy.contrib.seq2seq.beam_scores import get_attention_probs
from graphmp.legacy.contrib.seq2seq.beam_step import (
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    _beam_search_step,
)
from graphmp.legacy.contrib.seq2seq.beam_trees import gather_tree
from graphmp.legacy.contrib.seq2seq.decoder import Decoder

__all__ = ["BeamSearchDecoder", "FinalBeamSearchDecoderOutput"]


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The words of each final beam, best first, and the outputs of all steps."""

    predicted_ids: Any
    beam_search_decoder_output: Any


class BeamSearchDecoder(BeamBatches, Decoder):
    """Keeps the best `beam_width` beams of each entry; their cells run as one larger batch."""

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: Any = 0.0,
        coverage_penalty_weight: Any = 0.0,
        reorder_tensor_arrays: bool = True,
    ):
        parts.check_cell(cell)
        parts.check_layer("output_layer", output_layer)
        self._cell, self._output_layer, self._beam_width = cell, output_layer, beam_width
        self._length_penalty_weight = length_penalty_weight
        self._coverage_penalty_weight = coverage_penalty_weight
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._embedding_fn = parts.embedding_function(embedding)
        start = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
        parts.check_rank("start_tokens", start, 1)
        parts.check_rank("end_token", self._end_token, 0)
        self._batch_size = tf.size(start)
        self._start_tokens = tf.tile(tf.expand_dims(start, 1), [1, beam_width])
        self._start_inputs = self._embedding_fn(self._start_tokens)
        self._initial_cell_state = tf.nest.map_structure(
            self._maybe_split_batch_beams, initial_state, cell.state_size
        )
        self._finished = self._in_first_beam(False, True, tf.bool)

    def _in_first_beam(self, first: Any, others: Any, dtype: Any) -> tf.Tensor:
        """One value in the first beam of each entry, and another in the others.

        All beams start the same: only one of them may be continued.
        """
        firsts = tf.zeros([self._batch_size], tf.int32)
        return tf.one_hot(firsts, self._beam_width, on_value=first, off_value=others, dtype=dtype)

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def _rnn_output_size(self) -> Any:
        return parts.layer_shape(self._output_layer, self._cell.output_size)

    @property
    def tracks_own_finished(self) -> bool:
        return True

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        return BeamSearchDecoderOutput(*[tf.TensorShape([self._beam_width])] * 3)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        return BeamSearchDecoderOutput(self._dtype, tf.int32, tf.int32)

    @property
    def _dtype(self) -> Any:
        return tf.nest.flatten(self._initial_cell_state)[0].dtype

    def initialize(self, name: Optional[str] = None) -> Tuple[Any, Any, BeamSearchDecoderState]:
        attended = get_attention_probs(self._initial_cell_state, self._coverage_penalty_weight)
        state = BeamSearchDecoderState(
            cell_state=self._initial_cell_state,
            log_probs=self._in_first_beam(0.0, -np.inf, self._dtype),
            finished=self._finished,
            lengths=tf.zeros([self._batch_size, self._beam_width], tf.int64),
            accumulated_attention_probs=() if attended is None else attended,
        )
        return self._finished, self._start_inputs, state

    def step(
        self, time: Any, inputs: Any, state: Any, name: Optional[str] = None
    ) -> Tuple[Any, Any, Any, Any]:
        with tf.name_scope(name, "BeamSearchDecoderStep", (time, inputs, state)):
            outputs, cell_state = self._run_cell(inputs, state.cell_state)
            output, state = _beam_search_step(
                time,
                outputs,
                cell_state,
                state,
                self._batch_size,
                self._beam_width,
                self._end_token,
                self._length_penalty_weight,
                self._coverage_penalty_weight,
            )
            inputs = tf.cond(
                tf.reduce_all(state.finished),
                lambda: self._start_inputs,
                lambda: self._embedding_fn(output.predicted_ids),
            )
        return output, state, inputs, state.finished

    def _run_cell(self, inputs: Any, state: Any) -> Tuple[Any, Any]:
        """Outputs, after the layer, and state of the cell, with beams as part of the batch."""
        sizes = self._cell.state_size
        inputs = tf.nest.map_structure(
            lambda one: self._merge_batch_beams(one, one.shape[2:]), inputs
        )
        state = tf.nest.map_structure(self._maybe_merge_batch_beams, state, sizes)
        outputs, state = self._cell(inputs, state)
        outputs = tf.nest.map_structure(
            lambda one: self._split_batch_beams(one, one.shape[1:]), outputs
        )
        state = tf.nest.map_structure(self._maybe_split_batch_beams, state, sizes)
        if self._output_layer is not None:
            outputs = self._output_layer(outputs)
        return outputs, state

    def finalize(
        self, outputs: Any, final_state: Any, sequence_lengths: Any
    ) -> Tuple[FinalBeamSearchDecoderOutput, Any]:
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder_tensor_arrays:
            cell_state = tf.nest.map_structure(
                lambda one: self._maybe_sort_array_beams(
                    one, outputs.parent_ids, final_state.lengths
                ),
                final_state.cell_state,
            )
            final_state = final_state._replace(cell_state=cell_state)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state
