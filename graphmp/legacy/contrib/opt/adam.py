"""Adam for sparse gradients: lazy, and with Nesterov momentum."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import tensorflow.compat.v1 as tf

__all__ = ["LazyAdamOptimizer", "NadamOptimizer"]


class SparseAdam(tf.train.AdamOptimizer):
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


class LazyAdamOptimizer(SparseAdam):
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


class NadamOptimizer(SparseAdam):
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
