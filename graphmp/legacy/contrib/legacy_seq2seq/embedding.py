"""Decoders of ids: their embeddings, and those of the symbols that are fed back."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.legacy_seq2seq.attention import attention_decoder
from graphmp.legacy.contrib.legacy_seq2seq.decoders import rnn_decoder

__all__ = ["embedding_attention_decoder", "embedding_rnn_decoder"]

Result = Tuple[List[tf.Tensor], Any]


def embedding_rnn_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> Result:
    """`rnn_decoder` of ids; with `feed_previous` each but the first is the last output's best."""
    with tf.variable_scope(scope or "embedding_rnn_decoder"):
        check_projection(output_projection, num_symbols)
        inputs, following = embedded(
            *(decoder_inputs, num_symbols, embedding_size, output_projection),
            update_embedding_for_previous,
        )
        return rnn_decoder(inputs, initial_state, cell, following if feed_previous else None)


def embedding_attention_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    attention_states: tf.Tensor,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: Optional[int] = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Result:
    """`attention_decoder` of ids; `feed_previous` as for `embedding_rnn_decoder`."""
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        check_projection(output_projection, num_symbols)
        inputs, following = embedded(
            *(decoder_inputs, num_symbols, embedding_size, output_projection),
            update_embedding_for_previous,
        )
        return attention_decoder(
            *(inputs, initial_state, attention_states, cell),
            output_size=output_size or cell.output_size,
            num_heads=num_heads,
            loop_function=following if feed_previous else None,
            initial_state_attention=initial_state_attention,
        )


def check_projection(projection: Any, num_symbols: int) -> None:
    if projection is not None:
        tf.convert_to_tensor(projection[1]).shape.assert_is_compatible_with([num_symbols])


def embedded(
    ids: Sequence[tf.Tensor], symbols: int, size: int, projection: Any, is_updated: bool
) -> Tuple[List[tf.Tensor], Callable[[tf.Tensor, int], tf.Tensor]]:
    """Embedded ids, and the function that embeds the best symbol of an output."""
    embedding = tf.get_variable("embedding", [symbols, size])

    def following(previous: tf.Tensor, _: int) -> tf.Tensor:
        if projection is not None:
            previous = tf.nn.xw_plus_b(previous, projection[0], projection[1])
        found = tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))
        return found if is_updated else tf.stop_gradient(found)

    return [tf.nn.embedding_lookup(embedding, row) for row in ids], following


def decoded(decode: Callable[..., Result], feed_previous: Any) -> Result:
    """Decode; whether previous outputs are fed may be known only when the graph runs."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous)
    kept: List[Any] = []

    def branch(feeds: bool) -> List[tf.Tensor]:
        with tf.variable_scope(tf.get_variable_scope(), reuse=None if feeds else True):
            outputs, state = decode(feeds, False)
        kept[:] = [len(outputs), state]
        return outputs + tf.nest.flatten(state)

    found = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    return found[: kept[0]], tf.nest.pack_sequence_as(kept[1], found[kept[0] :])
