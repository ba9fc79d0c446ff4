"""Decoders and their loop, after `tf.contrib.seq2seq.dynamic_decode`."""

from __future__ import annotations

import abc
import contextlib
from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts
from graphmp.legacy.contrib.seq2seq.parts import _transpose_batch_time, zeros

__all__ = ["Decoder", "dynamic_decode"]


class Decoder(abc.ABC):
    """The interface between `dynamic_decode` and what it decodes with."""

    @property
    def batch_size(self) -> Any:
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        raise NotImplementedError

    @abc.abstractmethod
    def initialize(self, name: Optional[str] = None) -> Tuple[Any, Any, Any]:
        """Whether each entry is finished already, the first inputs and the first state."""
        raise NotImplementedError

    @abc.abstractmethod
    def step(self, time: Any, inputs: Any, state: Any, name: Optional[str] = None) -> Any:
        """Outputs, next state, next inputs, and whether each entry is finished now."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Outputs and state to return, from those after the loop; need not be defined."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether `step` returns finished entries as they are, since beams change places."""
        return False


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
    **kwargs: Any,
) -> Tuple[Any, Any, Any]:
    """Step a decoder until all entries are finished: outputs, final state and lengths.

    With `impute_finished` the outputs of finished entries are zeros, and their states stay.

    Raises:
        TypeError: the decoder isn't a Decoder.
        ValueError: `maximum_iterations` isn't a scalar.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError("Expected decoder to be type Decoder, but saw: %s" % type(decoder))
    with tf.variable_scope(scope, "decoder") as opened:
        _cache_variables(opened)
        if maximum_iterations is not None:
            maximum_iterations = tf.convert_to_tensor(
                maximum_iterations, tf.int32, name="maximum_iterations"
            )
            parts.check_rank("maximum_iterations", maximum_iterations, 0)
        loop = _Loop(decoder, impute_finished, kwargs)
        outputs, state, lengths = loop.run(
            maximum_iterations=maximum_iterations,
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
        )
        with contextlib.suppress(NotImplementedError):
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = tf.nest.map_structure(_transpose_batch_time, outputs)
    return outputs, state, lengths


def _cache_variables(scope: Any) -> None:
    """Read variables once, ahead of the loop, unless this is inside another one."""
    context = None
    if not tf.executing_eagerly():
        context = tf.get_default_graph()._get_control_flow_context()
    while context is not None and not context.IsWhileContext():
        context = context.outer_context
    if not tf.executing_eagerly() and context is None and scope.caching_device is None:
        scope.set_caching_device(lambda op: op.device)


def _create_zero_outputs(size: Any, dtype: Any, batch_size: Any) -> Any:
    return tf.nest.map_structure(lambda one, kind: zeros(one, batch_size, kind), size, dtype)


class _Loop:
    """The loop around one decoder."""

    def __init__(self, decoder: Any, impute_finished: bool, options: Any):
        self._decoder, self._impute = decoder, impute_finished
        self._start = decoder.initialize(**options)
        self._zeros = _create_zero_outputs(
            decoder.output_size, decoder.output_dtype, decoder.batch_size
        )

    def run(self, maximum_iterations: Any, **options: Any) -> Tuple[Any, Any, Any]:
        """Stacked outputs, final state and lengths."""
        finished, inputs, state = self._start
        if maximum_iterations is not None:
            finished = tf.logical_or(finished, maximum_iterations <= 0)
        arrays = tf.nest.map_structure(_array, self._zeros)
        lengths = tf.zeros_like(finished, tf.int32)
        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda time, arrays, state, inputs, finished, _: ~tf.reduce_all(finished),
            self._body,
            (tf.constant(0), arrays, state, inputs, finished, lengths),
            maximum_iterations=maximum_iterations,
            **options,
        )
        return tf.nest.map_structure(lambda array: array.stack(), arrays), state, lengths

    def _body(
        self, time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any
    ) -> Tuple[Any, ...]:
        outputs, new_state, new_inputs, now = self._decoder.step(time, inputs, state)
        for before, after in ((state, new_state), (arrays, outputs), (inputs, new_inputs)):
            tf.nest.assert_same_structure(before, after)
        # A beam search moves its beams: what was finished needn't be so in the same place.
        if not self._decoder.tracks_own_finished:
            now = tf.logical_or(now, finished)
        lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
        if self._impute:
            outputs = tf.nest.map_structure(
                lambda zero, output: tf.where(finished, zero, output), self._zeros, outputs
            )
            new_state = tf.nest.map_structure(
                lambda old, new: _kept(finished, old, new), state, new_state
            )
        arrays = tf.nest.map_structure(
            lambda array, output: array.write(time, output), arrays, outputs
        )
        return time + 1, arrays, new_state, new_inputs, now, lengths


def _array(zero: tf.Tensor) -> tf.TensorArray:
    return tf.TensorArray(zero.dtype, size=0, dynamic_size=True, element_shape=zero.shape)


def _kept(finished: Any, old: Any, new: Any) -> Any:
    """A part of the state: the old value of entries that are finished, else the new one."""
    if parts.is_array(old):
        return new
    new.set_shape(old.shape)
    return new if new.shape.ndims == 0 else tf.where(finished, old, new)
