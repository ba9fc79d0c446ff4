"""Optimizers of `tf.contrib.opt`: decoupled weight decay, lazy Adam, Nadam, LARS, averages.

Own code: TensorFlow 2 has none of them with TensorFlow 1's interface.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals
from graphmp.legacy.contrib.weight_decay import (
    AdamWOptimizer,
    DecoupledWeightDecayExtension,
    MomentumWOptimizer,
    extend_with_decoupled_weight_decay,
)

__all__ = [
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "LARSOptimizer",
    "LazyAdamOptimizer",
    "MomentumWOptimizer",
    "MovingAverageOptimizer",
    "NadamOptimizer",
    "extend_with_decoupled_weight_decay",
]

Gradients = Sequence[Tuple[Any, tf.Variable]]


class _SparseAdam(tf.train.AdamOptimizer):
    """Adam with its coefficients as tensors of a variable's dtype."""

    def _coefficients(self, var: tf.Variable) -> Tuple[Any, ...]:
        """Beta 1, beta 2, epsilon and the rate of this step."""
        power1, power2 = self._get_beta_accumulators()
        rate, beta1, beta2, epsilon, power1, power2 = (
            tf.cast(value, var.dtype.base_dtype)
            for value in (
                *(self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t),
                *(power1, power2),
            )
        )
        return beta1, beta2, epsilon, rate * tf.sqrt(1 - power2) / (1 - power1)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return self._update_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> tf.Operation:
        return self._update_rows(grad, var, indices)

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> tf.Operation:
        raise NotImplementedError


class LazyAdamOptimizer(_SparseAdam):
    """Adam that updates, for a sparse gradient, only the moments of the rows it has."""

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> tf.Operation:
        beta1, beta2, epsilon, rate = self._coefficients(var)
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        mean = beta1 * tf.gather(first, indices) + (1 - beta1) * grad
        square = beta2 * tf.gather(second, indices) + (1 - beta2) * tf.square(grad)
        return tf.group(
            tf.scatter_update(first, indices, mean, use_locking=self._use_locking),
            tf.scatter_update(second, indices, square, use_locking=self._use_locking),
            tf.scatter_sub(
                var, indices, rate * mean / (tf.sqrt(square) + epsilon), self._use_locking
            ),
        )


class NadamOptimizer(_SparseAdam):
    """Adam with Nesterov momentum."""

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        first, second, options = self._dense(grad, var)
        return tf.raw_ops.ApplyAdam(var=var._ref(), m=first._ref(), v=second._ref(), **options).op

    def _resource_apply_dense(self, grad: tf.Tensor, var: Any) -> tf.Operation:
        first, second, options = self._dense(grad, var)
        return tf.raw_ops.ResourceApplyAdam(
            var=var.handle, m=first.handle, v=second.handle, **options
        )

    def _dense(self, grad: tf.Tensor, var: Any) -> Tuple[Any, Any, Dict[str, Any]]:
        power1, power2 = self._get_beta_accumulators()
        numbers = {
            "beta1_power": power1,
            "beta2_power": power2,
            "lr": self._lr_t,
            "beta1": self._beta1_t,
            "beta2": self._beta2_t,
            "epsilon": self._epsilon_t,
        }
        options = {name: tf.cast(value, grad.dtype.base_dtype) for name, value in numbers.items()}
        options.update(grad=grad, use_locking=self._use_locking, use_nesterov=True)
        return self.get_slot(var, "m"), self.get_slot(var, "v"), options

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> tf.Operation:
        beta1, beta2, epsilon, rate = self._coefficients(var)
        first = self._decayed(var, "m", beta1, indices, (1 - beta1) * grad)
        second = self._decayed(var, "v", beta2, indices, (1 - beta2) * tf.square(grad))
        ahead = (1 - beta1) * grad + beta1 * tf.gather(first, indices)
        step = rate * ahead / (tf.sqrt(tf.gather(second, indices)) + epsilon)
        return tf.group(tf.scatter_sub(var, indices, step, self._use_locking), first, second)

    def _decayed(self, var: Any, name: str, decay: Any, indices: Any, rows: Any) -> tf.Tensor:
        """The value of a slot after all of it decayed and `rows` were added."""
        slot = self.get_slot(var, name)
        with tf.control_dependencies(
            [tf.assign(slot, slot * decay, use_locking=self._use_locking)]
        ):
            added = tf.scatter_add(slot, indices, rows, self._use_locking)
        return tf.convert_to_tensor(added)


class LARSOptimizer(tf.train.MomentumOptimizer):
    """Momentum whose rate is scaled, layer by layer, with the norms of weights and gradient.

    Args:
        learning_rate: the rate before scaling.
        momentum: decay of the accumulated gradients.
        weight_decay: factor of the weights that is added to their gradient.
        eeta: factor of the scaling.
        epsilon: added to the norms that the scaling divides by.
        name: prefix of operations and variables.
        skip_list: a variable whose name has one of these in it gets plain momentum.
        use_nesterov: whether momentum is Nesterov's.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Optional[Sequence[str]] = None,
        use_nesterov: bool = False,
    ):
        if momentum < 0.0:
            raise ValueError("momentum should be positive: %s" % momentum)
        if weight_decay < 0.0:
            raise ValueError("weight_decay should be positive: %s" % weight_decay)
        super().__init__(learning_rate, momentum, name=name, use_nesterov=use_nesterov)
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skip_list = skip_list

    def compute_lr(self, grad: tf.Tensor, var: tf.Variable) -> Tuple[Any, tf.Tensor]:
        """The scaled rate of a variable, and its gradient with weight decay."""
        if any(part in var.name for part in self._skip_list or ()):
            return self._learning_rate, grad
        weights, slope = tf.norm(var, ord=2), tf.norm(grad, ord=2)
        scaled = self._eeta * weights / (slope + self._weight_decay * weights + self._epsilon)
        is_scaled = tf.logical_and(tf.greater(weights, 0), tf.greater(slope, 0))
        ratio = tf.where(is_scaled, scaled, tf.ones_like(scaled))
        rate = tf.cast(self._learning_rate_tensor, ratio.dtype) * ratio
        return rate, grad + self._weight_decay * var

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        slot, options = self._step(grad, var)
        return tf.raw_ops.ApplyMomentum(var=var._ref(), accum=slot._ref(), **options).op

    def _resource_apply_dense(self, grad: tf.Tensor, var: Any) -> tf.Operation:
        slot, options = self._step(grad, var)
        return tf.raw_ops.ResourceApplyMomentum(var=var.handle, accum=slot.handle, **options)

    def _step(self, grad: tf.Tensor, var: Any) -> Tuple[Any, Dict[str, Any]]:
        """The slot, which adds up steps and not gradients, and what both ops are given."""
        rate, grad = self.compute_lr(grad, var)
        options = {
            "lr": tf.ones([], grad.dtype),
            "grad": tf.cast(rate, grad.dtype) * grad,
            "momentum": tf.cast(self._momentum_tensor, grad.dtype),
            "use_nesterov": self._use_nesterov,
        }
        return self.get_slot(var, "momentum"), options


class MovingAverageOptimizer(tf.train.Optimizer):
    """Another optimizer, with moving averages of the variables that it trains.

    Args:
        opt: the optimizer that is used.
        average_decay: decay of the averages.
        num_updates: see `tf.train.ExponentialMovingAverage`.
        sequential_update: whether averages are taken after the variables are updated.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        average_decay: float = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ):
        super().__init__(False, "MovingAverageOptimizer")
        self._optimizer = opt
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential_update = sequential_update
        self._swapped: Dict[str, Any] = {}

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, tf.Variable]]:
        """See the optimizer that is used."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Gradients, global_step: Any = None, name: Optional[str] = None
    ) -> tf.Operation:
        """Update the variables, and their averages."""
        grads_and_vars = list(grads_and_vars)
        train = self._optimizer.apply_gradients(grads_and_vars, global_step, name)
        variables = [variable for gradient, variable in grads_and_vars if gradient is not None]
        with tf.control_dependencies([train] if self._sequential_update else []):
            average = self._ema.apply(variables)
        self._swapped = {}
        for variable in variables:
            shadow = self._ema.average(variable)
            self._swapped.update({variable.op.name: shadow, shadow.op.name: variable})
        return tf.group(train, average, name="train_with_avg")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> tf.train.Saver:
        """A saver that writes each average under its variable's name, and the reverse.

        Raises:
            RuntimeError: before `apply_gradients` or `minimize`.
            ValueError: if the averages of the variables are not saved with them.
        """
        if not self._swapped:
            raise RuntimeError(
                "Must call apply_gradients or minimize before creating the swapping_saver"
            )
        names = var_list if isinstance(var_list, dict) else _by_name(var_list)
        saved = {saved_as: self._other(value, names) for saved_as, value in names.items()}
        return tf.train.Saver(saved, name=name, **kwargs)

    def _other(self, value: Any, names: Dict[str, Any]) -> Any:
        """What is saved in place of a variable, or of the parts of one."""
        if isinstance(value, (list, tuple)):
            return [self._other(part, names) for part in value]
        other = self._swapped.get(value.op.name, value)
        if other is not value and not any(_has(entry, other) for entry in names.values()):
            raise ValueError("Variable to swap %s is not in variables to save." % other.op.name)
        return other


def _by_name(variables: Any) -> Dict[str, Any]:
    """Variables by the names under which a Saver writes them."""
    given = tf.global_variables() if variables is None else variables
    return internals.fetch(_BY_NAME)(given)


_BY_NAME = "tensorflow.python.training.saving.saveable_object_util:op_list_to_dict"


def _has(entry: Any, variable: tf.Variable) -> bool:
    parts = entry if isinstance(entry, (list, tuple)) else [entry]
    return any(part is variable for part in parts)
