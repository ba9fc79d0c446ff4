"""Layer-wise adaptive rate scaling.

Own code, after You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks" (arXiv
1708.03888).
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

__all__ = ["LARSOptimizer"]


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
