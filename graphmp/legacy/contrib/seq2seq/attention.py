"""Additive and multiplicative attention.

After Bahdanau et al. (arXiv 1409.0473), normalized after Salimans and Kingma (arXiv 1602.07868),
and Luong et al. (arXiv 1508.04025).
"""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq.mechanisms import _BaseAttentionMechanism

__all__ = ["BahdanauAttention", "LuongAttention"]


def _bahdanau_score(
    processed_query: tf.Tensor,
    keys: tf.Tensor,
    attention_v: Any,
    attention_g: Any = None,
    attention_b: Any = None,
) -> tf.Tensor:
    """Scores [batch, time] of keys [batch, time, units]; normalized if `attention_g` is given."""
    features = keys + tf.expand_dims(processed_query, 1)
    if attention_g is None or attention_b is None:
        return tf.reduce_sum(attention_v * tf.tanh(features), [2])
    norm = tf.rsqrt(tf.reduce_sum(tf.square(attention_v)))
    return tf.reduce_sum(attention_g * attention_v * norm * tf.tanh(features + attention_b), [2])


def _luong_score(query: tf.Tensor, keys: tf.Tensor, scale: Any) -> tf.Tensor:
    """Scores [batch, time]: the products of keys and a query, times `scale` unless it is None."""
    depth, units = query.shape.as_list()[-1], keys.shape.as_list()[-1]
    if depth != units:
        raise ValueError(
            "Incompatible or unknown inner dimensions between query and keys. Query (%s) has units:"
            " %s. Keys (%s) have units: %s. Perhaps you need to set num_units to the keys'"
            " dimension (%s)?" % (query, depth, keys, units, units)
        )
    score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), keys, transpose_b=True), [1])
    return score if scale is None else scale * score


def dense(units: int, name: str, dtype: Any) -> Any:
    """A linear layer without bias."""
    return tf.layers.Dense(units, name=name, use_bias=False, dtype=dtype or tf.float32)


def additive_score(mechanism: Any, query: tf.Tensor) -> tf.Tensor:
    """`_bahdanau_score` with the variables of the current scope."""
    if mechanism.query_layer is not None:
        query = mechanism.query_layer(query)
    units = mechanism._num_units
    vector = tf.get_variable("attention_v", [units], query.dtype)
    if not mechanism._normalize:
        return _bahdanau_score(query, mechanism.keys, vector)
    gain = tf.get_variable(
        "attention_g", [], query.dtype, tf.constant_initializer(math.sqrt(1.0 / units))
    )
    bias = tf.get_variable("attention_b", [units], query.dtype, tf.zeros_initializer())
    return _bahdanau_score(query, mechanism.keys, vector, gain, bias)


def multiplicative_score(mechanism: Any, query: tf.Tensor) -> tf.Tensor:
    """`_luong_score` with the variable of the current scope."""
    scale = None
    if mechanism._scale:
        scale = tf.get_variable("attention_g", [], query.dtype, tf.ones_initializer())
    return _luong_score(query, mechanism.keys, scale)


def _stateless(probability_fn: Optional[Callable[[Any], Any]]) -> Callable[[Any, Any], Any]:
    function = probability_fn or tf.nn.softmax
    return lambda score, _: function(score)


class BahdanauAttention(_BaseAttentionMechanism):
    """Additive attention: v · tanh(keys + layer(query))."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Optional[Callable[[Any], Any]] = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Optional[Callable[[Any, Any], Any]] = None,
        name: str = "BahdanauAttention",
    ):
        super().__init__(
            query_layer=dense(num_units, "query_layer", dtype),
            memory_layer=dense(num_units, "memory_layer", dtype),
            memory=memory,
            probability_fn=_stateless(probability_fn),
            custom_key_value_fn=custom_key_value_fn,
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )
        self._num_units, self._normalize, self._name = num_units, normalize, name

    def __call__(self, query: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            alignments = self._probability_fn(additive_score(self, query), state)
        return alignments, alignments


class LuongAttention(_BaseAttentionMechanism):
    """Multiplicative attention: keys · query, with a factor that is learned if `scale`."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Optional[Callable[[Any], Any]] = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Optional[Callable[[Any, Any], Any]] = None,
        name: str = "LuongAttention",
    ):
        super().__init__(
            query_layer=None,
            memory_layer=dense(num_units, "memory_layer", dtype),
            memory=memory,
            probability_fn=_stateless(probability_fn),
            custom_key_value_fn=custom_key_value_fn,
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )
        self._num_units, self._scale, self._name = num_units, scale, name

    def __call__(self, query: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        with tf.variable_scope(None, "luong_attention", [query]):
            alignments = self._probability_fn(multiplicative_score(self, query), state)
        return alignments, alignments
