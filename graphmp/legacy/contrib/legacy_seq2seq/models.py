"""Models with an encoder of ids and one or more decoders of others."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.legacy_seq2seq.embedding import (
    Result,
    decoded,
    embedding_attention_decoder,
    embedding_rnn_decoder,
)
from graphmp.legacy.contrib.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper

__all__ = ["embedding_attention_seq2seq", "embedding_rnn_seq2seq", "one2many_rnn_seq2seq"]


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Result:
    """Encode ids with one copy of the cell and decode others with another."""
    with tf.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=dtype or opened.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(feeds: bool, is_updated: bool = True) -> Result:
            return embedding_rnn_decoder(
                *(decoder_inputs, state, cell, num_decoder_symbols, embedding_size),
                *(output_projection, feeds, is_updated),
            )

        return decoded(decode, feed_previous)


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Result:
    """`embedding_rnn_seq2seq`, whose decoder attends to the encoder's outputs."""
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as opened:
        dtype = dtype or opened.dtype
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        outputs, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=dtype)
        attended = tf.stack(outputs, axis=1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols

        def decode(feeds: bool, is_updated: bool = True) -> Result:
            return embedding_attention_decoder(
                *(decoder_inputs, state, attended, cell, num_decoder_symbols, embedding_size),
                *(num_heads, output_size, output_projection, feeds, is_updated),
                initial_state_attention=initial_state_attention,
            )

        return decoded(decode, feed_previous)


def one2many_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs_dict: Dict[str, Sequence[tf.Tensor]],
    enc_cell: Any,
    dec_cells_dict: Dict[str, Any],
    num_encoder_symbols: int,
    num_decoder_symbols_dict: Dict[str, int],
    embedding_size: int,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Tuple[Dict[str, List[tf.Tensor]], Dict[str, Any]]:
    """One encoder and several decoders: the outputs and the state of each, by name."""
    outputs, states = {}, {}
    with tf.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=dtype or opened.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)

            def decode(feeds: bool, is_updated: bool = True) -> Result:
                return embedding_rnn_decoder(
                    *(inputs, state, cell, symbols, embedding_size),  # noqa: B023 - called at once
                    feed_previous=feeds,
                    update_embedding_for_previous=is_updated,
                )

            with tf.variable_scope("one2many_decoder_" + str(name)):
                outputs[name], states[name] = decoded(decode, feed_previous)
    return outputs, states
