"""The models of `tf.contrib.legacy_seq2seq` with embeddings and attention.

Own code: TensorFlow 2 has none of them.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.attention_seq2seq import attention_decoder
from graphmp.legacy.contrib.legacy_seq2seq import (
    rnn_decoder,
    sequence_loss,
    sequence_loss_by_example,
)
from graphmp.legacy.contrib.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper

__all__ = [
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "model_with_buckets",
    "one2many_rnn_seq2seq",
    "tied_rnn_seq2seq",
]

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
        _check_projection(output_projection, num_symbols)
        inputs, following = _embedded(
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
        _check_projection(output_projection, num_symbols)
        inputs, following = _embedded(
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


def _check_projection(projection: Any, num_symbols: int) -> None:
    if projection is not None:
        tf.convert_to_tensor(projection[1]).shape.assert_is_compatible_with([num_symbols])


def _embedded(
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

        return _decoded(decode, feed_previous)


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

        return _decoded(decode, feed_previous)


def _decoded(decode: Callable[..., Result], feed_previous: Any) -> Result:
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
        _check_projection(output_projection, num_decoder_symbols or num_symbols)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype)
        encoded, decoded = (
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
            return tied_rnn_seq2seq(encoded, decoded, cell, fed if feeds else None, dtype)

        return _decoded(decode, feed_previous)


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
                outputs[name], states[name] = _decoded(decode, feed_previous)
    return outputs, states


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
