"""Helpers, which choose a decoder's inputs: their interface, and those for training."""

from __future__ import annotations

import abc
from typing import Any, Callable, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq.parts import _transpose_batch_time, check_rank

__all__ = ["CustomHelper", "Helper", "TrainingHelper"]


class Helper(abc.ABC):
    """The interface between `BasicDecoder` and what samples and gives inputs."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """The number of entries, an int or a scalar tensor."""
        raise NotImplementedError("batch_size has not been implemented")

    @property
    @abc.abstractmethod
    def sample_ids_shape(self) -> Any:
        """The shape of an entry's sample."""
        raise NotImplementedError("sample_ids_shape has not been implemented")

    @property
    @abc.abstractmethod
    def sample_ids_dtype(self) -> Any:
        """The dtype of the samples."""
        raise NotImplementedError("sample_ids_dtype has not been implemented")

    @abc.abstractmethod
    def initialize(self, name: Optional[str] = None) -> Tuple[Any, Any]:
        """Whether each entry is finished already, and the first inputs."""

    @abc.abstractmethod
    def sample(self, time: Any, outputs: Any, state: Any, name: Optional[str] = None) -> Any:
        """Samples of a step's outputs."""

    @abc.abstractmethod
    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Optional[str] = None
    ) -> Tuple[Any, Any, Any]:
        """Whether each entry is finished now, the next inputs and the next state."""


class StoredHelper(Helper):
    """A helper that stores its batch size and what samples are: an id an entry, if not set."""

    _batch_size: Any = None
    _sample_ids_shape: Any = tf.TensorShape([])
    _sample_ids_dtype: Any = tf.int32

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._sample_ids_shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._sample_ids_dtype


class CustomHelper(StoredHelper):
    """A helper of three functions, called with `time`, `outputs`, `state` and `sample_ids`."""

    def __init__(
        self,
        initialize_fn: Callable[[], Tuple[Any, Any]],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Tuple[Any, Any, Any]],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ):
        self._initialize_fn, self._sample_fn = initialize_fn, sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._sample_ids_shape = tf.TensorShape(sample_ids_shape or [])
        self._sample_ids_dtype = sample_ids_dtype or tf.int32

    @property
    def batch_size(self) -> Any:
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    def initialize(self, name: Optional[str] = None) -> Tuple[Any, Any]:
        with tf.name_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: Optional[str] = None) -> Any:
        with tf.name_scope(name, "CustomHelperSample", (time, outputs, state)):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Optional[str] = None
    ) -> Tuple[Any, Any, Any]:
        with tf.name_scope(name, "CustomHelperNextInputs", (time, outputs, state)):
            return self._next_inputs_fn(
                time=time, outputs=outputs, state=state, sample_ids=sample_ids
            )


def _unstack_ta(inp: tf.Tensor) -> tf.TensorArray:
    array = tf.TensorArray(inp.dtype, size=tf.shape(inp)[0], element_shape=inp.shape[1:])
    return array.unstack(inp)


class TrainingHelper(StoredHelper):
    """Reads the inputs of each step; samples are the largest outputs, which it doesn't use."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        time_major: bool = False,
        name: Optional[str] = None,
    ):
        with tf.name_scope(name, "TrainingHelper", (tf.nest.flatten(inputs), sequence_length)):
            inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
            self._inputs = inputs
            if not time_major:
                inputs = tf.nest.map_structure(_transpose_batch_time, inputs)
            self._input_tas = tf.nest.map_structure(_unstack_ta, inputs)
            self._sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            check_rank("sequence_length", self._sequence_length, 1)
            self._zero_inputs = tf.nest.map_structure(lambda rows: tf.zeros_like(rows[0]), inputs)
            self._batch_size = tf.size(self._sequence_length)

    @property
    def inputs(self) -> Any:
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        return self._sequence_length

    def initialize(self, name: Optional[str] = None) -> Tuple[Any, Any]:
        with tf.name_scope(name, "TrainingHelperInitialize"):
            return self._read(0)

    def sample(
        self, time: Any, outputs: Any, state: Any = None, name: Optional[str] = None, **_: Any
    ) -> Any:
        with tf.name_scope(name, "TrainingHelperSample", [time, outputs]):
            return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(
        self,
        time: Any,
        outputs: Any,
        state: Any,
        sample_ids: Any = None,
        name: Optional[str] = None,
        **_: Any,
    ) -> Tuple[Any, Any, Any]:
        with tf.name_scope(name, "TrainingHelperNextInputs", [time, outputs, state]):
            return (*self._read(time + 1), state)

    def _read(self, time: Any) -> Tuple[Any, Any]:
        """The sequences finished at a step, and its inputs: zeros if all are finished."""
        finished = tf.less_equal(self._sequence_length, tf.cast(time, self._sequence_length.dtype))
        inputs = tf.cond(
            tf.reduce_all(finished),
            lambda: self._zero_inputs,
            lambda: tf.nest.map_structure(lambda array: array.read(time), self._input_tas),
        )
        return finished, inputs
