"""The common parts of attention mechanisms: memory, keys, values and masks."""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts

__all__ = ["AttentionMechanism"]


class AttentionMechanism:
    """The interface between `AttentionWrapper` and what it attends with."""

    @property
    def alignments_size(self) -> Any:
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        raise NotImplementedError


def _prepare_memory(
    memory: Any,
    memory_sequence_length: Any = None,
    memory_mask: Any = None,
    check_inner_dims_defined: bool = True,
) -> Any:
    """A structure of memories [batch, time, ...] as tensors, with zeros after each length."""
    memory = tf.nest.map_structure(lambda one: tf.convert_to_tensor(one, name="memory"), memory)
    if memory_sequence_length is not None and memory_mask is not None:
        raise ValueError("memory_sequence_length and memory_mask can't be provided at same time.")
    for one in tf.nest.flatten(memory) if check_inner_dims_defined else ():
        if not one.shape[2:].is_fully_defined():
            raise ValueError(
                "Expected memory %s to have fully defined inner dims, but saw shape: %s"
                % (one.name, one.shape)
            )
    first = tf.nest.flatten(memory)[0]
    if memory_sequence_length is not None:
        memory_mask = tf.sequence_mask(memory_sequence_length, tf.shape(first)[1])
    if memory_mask is None:
        return memory
    mask = tf.cast(memory_mask, first.dtype)
    return tf.nest.map_structure(lambda one: one * _with_rank_of(mask, one), memory)


def _with_rank_of(mask: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """A mask [batch, time], with axes of size one to fit a tensor."""
    ones = tf.ones([tf.rank(tensor) - 2], tf.int32)
    reshaped = tf.reshape(mask, tf.concat([tf.shape(mask), ones], 0))
    if tensor.shape.ndims is not None:
        reshaped.set_shape(mask.shape.concatenate([1] * (tensor.shape.ndims - 2)))
    return reshaped


def _maybe_mask_score(
    score: tf.Tensor,
    memory_sequence_length: Any = None,
    memory_mask: Any = None,
    score_mask_value: Any = None,
) -> tf.Tensor:
    """Scores [batch, time], with another value after each length.

    An entry without memory fails when the graph runs: no weights of it sum to one.
    """
    if memory_sequence_length is not None and memory_mask is not None:
        raise ValueError("memory_sequence_length and memory_mask can't be provided at same time.")
    if memory_sequence_length is not None:
        message = "All values in memory_sequence_length must greater than zero."
        checked = tf.debugging.assert_positive(memory_sequence_length, message=message)
        with tf.control_dependencies([checked]):
            memory_mask = tf.sequence_mask(memory_sequence_length, tf.shape(score)[1])
    if memory_mask is None:
        return score
    return tf.where(tf.cast(memory_mask, tf.bool), score, score_mask_value * tf.ones_like(score))


class _BaseAttentionMechanism(AttentionMechanism):
    """Keys are the memory after a layer, values the memory itself; masked scores give alignments.

    Subclasses define `__call__(query, state)`, which returns alignments and the next state.
    """

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Callable[[Any, Any], Any],
        memory_sequence_length: Any = None,
        memory_layer: Any = None,
        check_inner_dims_defined: bool = True,
        score_mask_value: Any = None,
        custom_key_value_fn: Optional[Callable[[Any, Any], Any]] = None,
        name: Optional[str] = None,
    ):
        parts.check_layer("query_layer", query_layer)
        parts.check_layer("memory_layer", memory_layer)
        if not callable(probability_fn):
            raise TypeError("probability_fn must be callable, saw type: %s" % type(probability_fn))
        self._query_layer, self._memory_layer = query_layer, memory_layer
        with tf.name_scope(name, "BaseAttentionMechanismInit", tf.nest.flatten(memory)):
            if memory_sequence_length is not None:
                memory_sequence_length = tf.convert_to_tensor(
                    memory_sequence_length, name="memory_sequence_length"
                )
            self._values = _prepare_memory(
                memory,
                memory_sequence_length,
                check_inner_dims_defined=check_inner_dims_defined,
            )
            self._keys = memory_layer(self._values) if memory_layer else self._values
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
        self.dtype = memory_layer.dtype if memory_layer else self._keys.dtype
        if score_mask_value is None:
            score_mask_value = tf.as_dtype(self.dtype).as_numpy_dtype(-np.inf)
        self._probability_fn = lambda score, previous: probability_fn(
            _maybe_mask_score(
                score,
                memory_sequence_length=memory_sequence_length,
                score_mask_value=score_mask_value,
            ),
            previous,
        )
        self._batch_size = parts.dimension(self._keys, 0)
        self._alignments_size = parts.dimension(self._keys, 1)

    @property
    def memory_layer(self) -> Any:
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        return self._query_layer

    @property
    def values(self) -> Any:
        return self._values

    @property
    def keys(self) -> Any:
        return self._keys

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> tf.Tensor:
        """Alignments before the first step."""
        return parts.zeros(self._alignments_size, batch_size, dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state before the first step: the alignments."""
        return self.initial_alignments(batch_size, dtype)
