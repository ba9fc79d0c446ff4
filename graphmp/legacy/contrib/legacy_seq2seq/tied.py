"""Models whose encoder and decoder share a cell and its variables."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.legacy_seq2seq.decoders import rnn_decoder
from graphmp.legacy.contrib.legacy_seq2seq.embedding import Result, check_projection, decoded
from graphmp.legacy.contrib.rnn.wrappers import OutputProjectionWrapper

__all__ = ["embedding_tied_rnn_seq2seq", "tied_rnn_seq2seq"]


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    loop_function: Optional[Callable[[tf.Tensor, int], tf.Tensor]] = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> Result:
    """Encode and decode with the same cell and variables."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        name = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=name)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope=name)


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: Optional[int] = None,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Result:
    """`tied_rnn_seq2seq` of ids, with one embedding for both sides."""
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as opened:
        dtype = dtype or opened.dtype
        check_projection(output_projection, num_decoder_symbols or num_symbols)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype)
        encoder_rows, decoder_rows = (
            [tf.nn.embedding_lookup(embedding, row) for row in rows]
            for rows in (encoder_inputs, decoder_inputs)
        )
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)

        def following(previous: tf.Tensor, _: int) -> tf.Tensor:
            if output_projection is not None:
                previous = tf.nn.xw_plus_b(previous, *output_projection)
            return tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))

        def decode(feeds: bool, is_updated: bool = True) -> Result:
            fed = (
                (lambda *args: tf.stop_gradient(following(*args))) if not is_updated else following
            )
            return tied_rnn_seq2seq(encoder_rows, decoder_rows, cell, fed if feeds else None, dtype)

        return decoded(decode, feed_previous)
