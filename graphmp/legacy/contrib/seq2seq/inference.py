"""Helpers that feed a decoder with its own samples."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq.helper import StoredHelper
from graphmp.legacy.contrib.seq2seq.parts import check_rank, dimension, embedding_function
from graphmp.legacy.contrib.seq2seq.sampling import categorical_sample

__all__ = ["GreedyEmbeddingHelper", "InferenceHelper", "SampleEmbeddingHelper"]


class _StartingHelper(StoredHelper):
    """A helper that begins with inputs which it was given, no entry finished."""

    _start_inputs: Any

    def initialize(self, name: Optional[str] = None) -> Tuple[Any, Any]:
        return tf.tile([False], [self._batch_size]), self._start_inputs


class GreedyEmbeddingHelper(_StartingHelper):
    """Samples the largest output and feeds its embedding."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any):
        self._embedding_fn = embedding_function(embedding)
        self._start_tokens = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
        check_rank("start_tokens", self._start_tokens, 1)
        check_rank("end_token", self._end_token, 0)
        self._batch_size = tf.size(self._start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    def sample(self, time: Any, outputs: Any, state: Any, name: Optional[str] = None) -> Any:
        return tf.argmax(_single(outputs), axis=-1, output_type=tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Optional[str] = None
    ) -> Tuple[Any, Any, Any]:
        finished = tf.equal(sample_ids, self._end_token)
        inputs = tf.cond(
            tf.reduce_all(finished),
            lambda: self._start_inputs,
            lambda: self._embedding_fn(sample_ids),
        )
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Samples from the distribution whose logits are the outputs, and feeds its embedding.

    Logits are divided by `softmax_temperature`.
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: Optional[int] = None,
    ):
        super().__init__(embedding, start_tokens, end_token)
        self._softmax_temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: Optional[str] = None) -> Any:
        logits = _single(outputs)
        if self._softmax_temperature is not None:
            logits = logits / self._softmax_temperature
        return categorical_sample(logits, seed=self._seed)


def _single(outputs: Any) -> tf.Tensor:
    if not tf.is_tensor(outputs):
        raise TypeError("Expected outputs to be a single Tensor, got: %s" % type(outputs))
    return outputs


class InferenceHelper(_StartingHelper):
    """Samples by a function of the outputs; the next inputs are made of the samples."""

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Optional[Callable[[Any], Any]] = None,
    ):
        self._sample_fn, self._end_fn = sample_fn, end_fn
        self._sample_ids_shape = tf.TensorShape(sample_shape)
        self._sample_ids_dtype = sample_dtype
        self._next_inputs_fn = next_inputs_fn
        self._start_inputs = tf.convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = dimension(self._start_inputs, 0)

    def sample(self, time: Any, outputs: Any, state: Any, name: Optional[str] = None) -> Any:
        return self._sample_fn(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Optional[str] = None
    ) -> Tuple[Any, Any, Any]:
        inputs = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), inputs, state
