"""Monotonic attention.

After Raffel et al., "Online and Linear-Time Attention by Enforcing Monotonic Alignments" (arXiv
1704.00784).
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq.attention import additive_score, dense, multiplicative_score
from graphmp.legacy.contrib.seq2seq.mechanisms import _BaseAttentionMechanism
from graphmp.legacy.contrib.seq2seq.parts import dimension

__all__ = [
    "BahdanauMonotonicAttention",
    "LuongMonotonicAttention",
    "monotonic_attention",
    "safe_cumprod",
]


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
    """`tf.cumprod` of numbers from zero to one, as the exponential of a sum of logarithms."""
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> tf.Tensor:
    """Attention [batch, time] from the probability of each memory entry to stop at it.

    Raises:
        ValueError: the mode isn't "recursive", "parallel" or "hard".
    """
    if mode not in _MODES:
        raise ValueError("mode must be 'recursive', 'parallel', or 'hard'.")
    return _MODES[mode](
        tf.convert_to_tensor(p_choose_i, name="p_choose_i"),
        tf.convert_to_tensor(previous_attention, name="previous_attention"),
    )


def _recursive(choose: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
    """The exact recurrence q_i = (1 - p_{i-1}) · q_{i-1} + previous_i; attention is p · q."""
    batch = dimension(choose, 0)
    passed = tf.concat([tf.ones([batch, 1], choose.dtype), 1 - choose[:, :-1]], 1)
    reached = tf.scan(
        lambda before, now: tf.reshape(now[0] * before + now[1], [batch]),
        [tf.transpose(passed), tf.transpose(previous)],
        tf.zeros([batch], choose.dtype),
    )
    return choose * tf.transpose(reached)


def _parallel(choose: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
    """The recurrence in closed form."""
    passed = safe_cumprod(1 - choose, axis=1, exclusive=True)
    return choose * passed * tf.cumsum(previous / tf.clip_by_value(passed, 1e-10, 1.0), axis=1)


def _hard(choose: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
    """The first entry chosen, not ahead of the previous one; probabilities are zero or one."""
    choose = choose * tf.cumsum(previous, axis=1)
    return choose * tf.cumprod(1 - choose, axis=1, exclusive=True)


_MODES = {"recursive": _recursive, "parallel": _parallel, "hard": _hard}


def _monotonic_probability_fn(
    score: tf.Tensor,
    previous_alignments: tf.Tensor,
    sigmoid_noise: float,
    mode: str,
    seed: Optional[int] = None,
) -> tf.Tensor:
    """Monotonic attention by the sigmoid of scores, with noise added to them first."""
    if sigmoid_noise > 0:
        score += sigmoid_noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=seed)
    choose = tf.cast(score > 0, score.dtype) if mode == "hard" else tf.sigmoid(score)
    return monotonic_attention(choose, previous_alignments, mode)


def _stopping(noise: float, seed: Optional[int], mode: str) -> Callable[[Any, Any], Any]:
    return functools.partial(_monotonic_probability_fn, sigmoid_noise=noise, mode=mode, seed=seed)


class _BaseMonotonicAttentionMechanism(_BaseAttentionMechanism):
    """Starts at the first entry of the memory."""

    _score_bias_init = 0.0

    def initial_alignments(self, batch_size: Any, dtype: Any) -> tf.Tensor:
        return tf.one_hot(tf.zeros([batch_size], tf.int32), self._alignments_size, dtype=dtype)

    def _align(
        self, scope: str, score_of: Callable[[Any, Any], Any], query: tf.Tensor, state: Any
    ) -> Tuple[tf.Tensor, Any]:
        with tf.variable_scope(None, scope, [query]):
            score = score_of(self, query)
            score += tf.get_variable(
                "attention_score_bias",
                [],
                score.dtype,
                tf.constant_initializer(self._score_bias_init),
            )
            alignments = self._probability_fn(score, state)
        return alignments, alignments


class BahdanauMonotonicAttention(_BaseMonotonicAttentionMechanism):
    """Monotonic attention with additive scores."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: Optional[int] = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ):
        super().__init__(
            query_layer=dense(num_units, "query_layer", dtype),
            memory_layer=dense(num_units, "memory_layer", dtype),
            memory=memory,
            probability_fn=_stopping(sigmoid_noise, sigmoid_noise_seed, mode),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )
        self._num_units, self._normalize, self._name = num_units, normalize, name
        self._score_bias_init = score_bias_init

    def __call__(self, query: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        return self._align("bahdanau_monotonic_attention", additive_score, query, state)


class LuongMonotonicAttention(_BaseMonotonicAttentionMechanism):
    """Monotonic attention with multiplicative scores."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: Optional[int] = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ):
        super().__init__(
            query_layer=None,
            memory_layer=dense(num_units, "memory_layer", dtype),
            memory=memory,
            probability_fn=_stopping(sigmoid_noise, sigmoid_noise_seed, mode),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )
        self._num_units, self._scale, self._name = num_units, scale, name
        self._score_bias_init = score_bias_init

    def __call__(self, query: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        return self._align("luong_monotonic_attention", multiplicative_score, query, state)
