"""Optimizers of `tf.contrib.opt` that decay weights apart from the gradient: AdamW and its kind.

Own code, after Loshchilov and Hutter, "Decoupled Weight Decay Regularization".
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Set

import tensorflow.compat.v1 as tf

__all__ = [
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "MomentumWOptimizer",
    "extend_with_decoupled_weight_decay",
]


class DecoupledWeightDecayExtension:
    """The first base class of an optimizer with weight decay; the second is the optimizer.

    A variable is decayed before it is updated. Of one with a sparse gradient only the rows that
    are updated decay.

    Args:
        weight_decay: the factor by which a variable decays, a number, tensor or function of none.
        args: positional arguments of the optimizer.
        kwargs: its other arguments.
    """

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any):
        self._weight_decay = weight_decay
        self._decayed_names: Optional[Set[str]] = None
        self._weight_decay_tensor: Any = None
        super().__init__(*args, **kwargs)

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = tf.train.Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: Optional[str] = None,
        grad_loss: Any = None,
        decay_var_list: Any = None,
    ) -> tf.Operation:
        """`Optimizer.minimize`; of the variables only those in `decay_var_list` decay, if given."""
        self._decayed_names = _names(decay_var_list)
        return super().minimize(  # type: ignore[misc]
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )

    def apply_gradients(
        self,
        grads_and_vars: Any,
        global_step: Any = None,
        name: Optional[str] = None,
        decay_var_list: Any = None,
    ) -> tf.Operation:
        """`Optimizer.apply_gradients`; `decay_var_list` as for `minimize`."""
        self._decayed_names = _names(decay_var_list) or self._decayed_names
        return super().apply_gradients(  # type: ignore[misc]
            grads_and_vars, global_step=global_step, name=name
        )

    def _prepare(self) -> None:
        decay = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        self._weight_decay_tensor = tf.convert_to_tensor(decay, name="weight_decay")
        super()._prepare()  # type: ignore[misc]

    def _factor(self, var: Any) -> Optional[tf.Tensor]:
        """The decay of a variable, or None."""
        if self._decayed_names is not None and var.name not in self._decayed_names:
            return None
        return tf.cast(self._weight_decay_tensor, var.dtype.base_dtype)

    def _decay(self, var: Any, grad: tf.Tensor) -> tf.Operation:
        """Decay a variable, after its gradient has been computed from it."""
        factor = self._factor(var)
        if factor is None:
            return tf.no_op()
        with tf.control_dependencies([grad]):
            return tf.assign_sub(var, factor * var, use_locking=self._locks()).op

    def _decay_rows(self, var: Any, grad: tf.Tensor, indices: tf.Tensor) -> tf.Operation:
        """`_decay`, of the rows that are updated."""
        factor = self._factor(var)
        if factor is None:
            return tf.no_op()
        with tf.control_dependencies([grad]):
            rows = factor * tf.gather(var, indices)
            return tf.group(tf.scatter_sub(var, indices, rows, use_locking=self._locks()))

    def _locks(self) -> bool:
        return bool(getattr(self, "_use_locking", False))

    def _apply_dense(self, grad: Any, var: Any) -> tf.Operation:
        with tf.control_dependencies([self._decay(var, grad)]):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: Any, var: Any) -> tf.Operation:
        with tf.control_dependencies([self._decay(var, grad)]):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]

    def _apply_sparse(self, grad: Any, var: Any) -> tf.Operation:
        with tf.control_dependencies([self._decay_rows(var, grad.values, grad.indices)]):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> tf.Operation:
        with tf.control_dependencies([self._decay_rows(var, grad, indices)]):
            return super()._resource_apply_sparse(grad, var, indices)  # type: ignore[misc]


def _names(variables: Any) -> Optional[Set[str]]:
    """The names of the variables that decay; None stands for all, and so does an empty list."""
    return {variable.name for variable in variables} if variables else None


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ):
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ):
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """The class of an optimizer with `weight_decay` as its first argument."""
    members: Dict[str, Any] = {"__doc__": "%s with weight decay." % base_optimizer.__name__}
    bases = (DecoupledWeightDecayExtension, base_optimizer)
    return type("OptimizerWithDecoupledWeightDecay", bases, members)
