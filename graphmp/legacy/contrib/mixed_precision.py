"""Loss scaling of `tf.contrib.mixed_precision`.

Own code: TensorFlow 2's loss scales have another interface.
"""

from __future__ import annotations

import abc
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

__all__ = [
    "ExponentialUpdateLossScaleManager",
    "FixedLossScaleManager",
    "LossScaleManager",
    "LossScaleOptimizer",
]


class LossScaleManager(abc.ABC):
    """Decides by which factor a loss is scaled."""

    @abc.abstractmethod
    def get_loss_scale(self) -> tf.Tensor:
        """The factor, a scalar float32."""

    @abc.abstractmethod
    def update_loss_scale(self, finite_grads: tf.Tensor) -> tf.Operation:
        """Change the factor after a step with finite gradients, or without."""


class FixedLossScaleManager(LossScaleManager):
    """A factor that doesn't change, at least one."""

    def __init__(self, loss_scale: Any):
        if loss_scale < 1:
            raise ValueError("loss scale must be at least 1.")
        self._loss_scale = tf.convert_to_tensor(loss_scale, dtype=tf.float32)

    def get_loss_scale(self) -> tf.Tensor:
        """The factor."""
        return self._loss_scale

    def update_loss_scale(self, finite_grads: tf.Tensor) -> tf.Operation:
        """Nothing."""
        del finite_grads
        return tf.no_op()


class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A factor that grows after good steps in a row and shrinks after some bad ones.

    Args:
        init_loss_scale: the first factor.
        incr_every_n_steps: good steps in a row after which it grows.
        decr_every_n_nan_or_inf: bad steps, not in a row, after which it shrinks.
        incr_ratio: by how much it grows, while it stays finite.
        decr_ratio: by how much it shrinks, down to one.
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ):
        self._limits = (incr_every_n_steps, decr_every_n_nan_or_inf)
        self._ratios = (incr_ratio, decr_ratio)
        self._loss_scale = _untrained("loss_scale", float(init_loss_scale), tf.float32)
        self._good_steps = _untrained("good_steps", 0, tf.int32)
        self._bad_steps = _untrained("bad_steps", 0, tf.int32)

    def get_loss_scale(self) -> tf.Tensor:
        """The factor's present value."""
        return tf.identity(self._loss_scale)

    def update_loss_scale(self, finite_grads: tf.Tensor) -> tf.Operation:
        """Count the step, and change the factor if it is time to."""
        return tf.cond(finite_grads, self._after_good_step, self._after_bad_step)

    def _after_good_step(self) -> tf.Operation:
        grown = self._loss_scale * self._ratios[0]
        scale = tf.where(tf.is_finite(grown), grown, self._loss_scale)
        is_due = self._good_steps + 1 >= self._limits[0]
        return self._set(is_due, scale, self._good_steps + 1, tf.identity(self._bad_steps))

    def _after_bad_step(self) -> tf.Operation:
        scale = tf.maximum(1.0, self._loss_scale * self._ratios[1])
        is_due = self._bad_steps + 1 >= self._limits[1]
        return self._set(is_due, scale, tf.constant(0), self._bad_steps + 1)

    def _set(self, is_due: Any, scale: Any, good: tf.Tensor, bad: tf.Tensor) -> tf.Operation:
        """Change the factor and begin to count anew if it is due, else store the counts."""
        new = [tf.where(is_due, scale, self._loss_scale)]
        new += [tf.where(is_due, 0, count) for count in (good, bad)]
        with tf.control_dependencies(new):
            pairs = zip((self._loss_scale, self._good_steps, self._bad_steps), new)
            return tf.group(*(tf.assign(variable, value) for variable, value in pairs))


def _untrained(name: str, value: Any, dtype: Any) -> tf.Variable:
    return tf.Variable(value, trainable=False, dtype=dtype, name=name)


class LossScaleOptimizer(tf.train.Optimizer):
    """An optimizer whose gradients are computed of the scaled loss, and scaled back.

    A step with gradients that aren't finite changes no variable.
    """

    def __init__(self, opt: tf.train.Optimizer, loss_scale_manager: LossScaleManager):
        super().__init__(False, "LossScaleOptimizer")
        self._optimizer, self._manager = opt, loss_scale_manager

    def compute_gradients(
        self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any
    ) -> List[Tuple[Any, tf.Variable]]:
        """The gradients of the loss, scaled back."""
        scale = self._manager.get_loss_scale()
        pairs = self._optimizer.compute_gradients(
            loss * tf.cast(scale, loss.dtype.base_dtype), var_list, *args, **kwargs
        )
        return [(_divided(gradient, scale), variable) for gradient, variable in pairs]

    def apply_gradients(
        self,
        grads_and_vars: Sequence[Tuple[Any, tf.Variable]],
        global_step: Any = None,
        name: Optional[str] = None,
    ) -> tf.Operation:
        """Update the variables if all gradients are finite, and the factor."""
        pairs = list(grads_and_vars)
        values = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
        are_finite = tf.reduce_all(
            [tf.reduce_all(tf.is_finite(value)) for value in values if value is not None]
        )
        # Slots are made in a cond's branch; the gradients are read outside of it.
        train = tf.cond(
            are_finite,
            lambda: self._optimizer.apply_gradients(pairs, global_step, name),
            tf.no_op,
        )
        return tf.group(train, self._manager.update_loss_scale(are_finite))


def _divided(gradient: Any, scale: tf.Tensor) -> Any:
    """A gradient, dense, sparse or none, divided by the factor."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = _divided(gradient.values, scale)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(1.0 / scale, gradient.dtype.base_dtype)
