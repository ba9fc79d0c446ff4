"""Helpers that train on inputs, and at random on what the decoder made of them.

After Bengio et al., "Scheduled Sampling for Sequence Prediction" (arXiv 1506.03099).
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq.helper import TrainingHelper, _unstack_ta
from graphmp.legacy.contrib.seq2seq.parts import _transpose_batch_time, embedding_function
from graphmp.legacy.contrib.seq2seq.sampling import bernoulli_sample, categorical_sample

__all__ = ["ScheduledEmbeddingTrainingHelper", "ScheduledOutputTrainingHelper"]


def _probability(value: Any) -> tf.Tensor:
    value = tf.convert_to_tensor(value, name="sampling_probability")
    if value.shape.ndims not in (0, 1):
        raise ValueError(
            "sampling_probability must be either a scalar or a vector. saw shape: %s" % value.shape
        )
    return value


def _mixed(chosen: Any, made: Callable[[Any], Any], given: tf.Tensor) -> tf.Tensor:
    """The given rows, except for the chosen ones, which a function makes of their indices."""
    ours, theirs = (tf.cast(tf.where(rows), tf.int32) for rows in (chosen, ~chosen))
    shape = tf.shape(given)
    return tf.scatter_nd(ours, made(ours), shape) + tf.scatter_nd(
        theirs, tf.gather_nd(given, theirs), shape
    )


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Feeds embeddings of ids sampled from the outputs, to entries that are drawn at each step.

    The samples of other entries are -1.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: Optional[int] = None,
        scheduling_seed: Optional[int] = None,
        name: Optional[str] = None,
    ):
        with tf.name_scope(name, "ScheduledEmbeddingSamplingWrapper", [sampling_probability]):
            self._embedding_fn = embedding_function(embedding)
            self._sampling_probability = _probability(sampling_probability)
            self._seed, self._scheduling_seed = seed, scheduling_seed
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(
        self, time: Any, outputs: Any, state: Any = None, name: Optional[str] = None, **_: Any
    ) -> Any:
        with tf.name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [time, outputs, state]):
            drawn = bernoulli_sample(
                self._sampling_probability,
                dtype=tf.bool,
                sample_shape=_draws(self._sampling_probability, self.batch_size),
                seed=self._scheduling_seed,
            )
            ids = categorical_sample(outputs, seed=self._seed)
            return tf.where(drawn, ids, tf.fill([self.batch_size], -1))

    def next_inputs(
        self,
        time: Any,
        outputs: Any,
        state: Any,
        sample_ids: Any = None,
        name: Optional[str] = None,
        **_: Any,
    ) -> Tuple[Any, Any, Any]:
        with tf.name_scope(name, "ScheduledEmbeddingTrainingHelperNextInputs", [time, sample_ids]):
            finished, given, state = super().next_inputs(time, outputs, state)

            def mixed() -> tf.Tensor:
                return _mixed(
                    sample_ids > -1,
                    lambda rows: self._embedding_fn(tf.gather_nd(sample_ids, rows)),
                    given,
                )

            return finished, tf.cond(tf.reduce_all(finished), lambda: given, mixed), state


def _draws(probability: tf.Tensor, batch_size: Any) -> Any:
    """The shape of draws: an entry's own probability has no more than one."""
    return batch_size if probability.shape.ndims == 0 else ()


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Feeds outputs, or what `next_inputs_fn` makes of them, to entries drawn at each step.

    `auxiliary_inputs` are joined to both kinds of inputs.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: Optional[int] = None,
        next_inputs_fn: Optional[Callable[[Any], Any]] = None,
        auxiliary_inputs: Any = None,
        name: Optional[str] = None,
    ):
        with tf.name_scope(name, "ScheduledOutputTrainingHelper", [sampling_probability]):
            self._sampling_probability = _probability(sampling_probability)
            self._seed, self._next_inputs_fn = seed, next_inputs_fn
            self._auxiliary: Any = None
            if auxiliary_inputs is not None:
                inputs = tf.convert_to_tensor(inputs, name="inputs")
                inputs, self._auxiliary = _joined(inputs, auxiliary_inputs, time_major)
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(
        self, time: Any, outputs: Any, state: Any = None, name: Optional[str] = None, **_: Any
    ) -> Any:
        with tf.name_scope(name, "ScheduledOutputTrainingHelperSample", [time, outputs, state]):
            return bernoulli_sample(
                self._sampling_probability,
                sample_shape=_draws(self._sampling_probability, self.batch_size),
                seed=self._seed,
            )

    def next_inputs(
        self,
        time: Any,
        outputs: Any,
        state: Any,
        sample_ids: Any = None,
        name: Optional[str] = None,
        **_: Any,
    ) -> Tuple[Any, Any, Any]:
        with tf.name_scope(name, "ScheduledOutputTrainingHelperNextInputs", [time, sample_ids]):
            finished, given, state = super().next_inputs(time, outputs, state)
            chosen = tf.cast(sample_ids, tf.bool)
            unmixed = tf.reduce_all(finished) | ~tf.reduce_any(chosen)
            make = self._next_inputs_fn or (lambda rows: rows)

            def mixed() -> tf.Tensor:
                return _mixed(
                    chosen,
                    lambda rows: self._with_auxiliary(
                        make(tf.gather_nd(outputs, rows)), time + 1, rows
                    ),
                    given,
                )

            return finished, tf.cond(unmixed, lambda: given, mixed), state

    def _with_auxiliary(self, made: tf.Tensor, time: Any, rows: tf.Tensor) -> tf.Tensor:
        if self._auxiliary is None:
            return made
        return tf.concat([made, tf.gather_nd(self._auxiliary.read(time), rows)], -1)


def _joined(inputs: tf.Tensor, auxiliary: Any, time_major: bool) -> Tuple[tf.Tensor, Any]:
    """The inputs joined with the auxiliary ones, and an array of the latter by step."""
    auxiliary = tf.convert_to_tensor(auxiliary, name="auxiliary_inputs")
    steps = auxiliary if time_major else _transpose_batch_time(auxiliary)
    return tf.concat([inputs, auxiliary], -1), _unstack_ta(steps)
