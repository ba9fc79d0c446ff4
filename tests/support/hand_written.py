"""An optimizer as users write them: it overrides apply_gradients and assigns by hand."""

from __future__ import annotations

import tensorflow.compat.v1 as tf


class AdamWeightDecay(tf.train.Optimizer):
    """Adam with decoupled weight decay, by plain assignments."""

    def __init__(self, rate):
        super().__init__(False, "AdamWeightDecay")
        self._rate = rate

    def apply_gradients(
        self, grads_and_vars, name=None, **unused
    ):  # not the base class's signature
        del unused
        assignments = []
        for gradient, variable in grads_and_vars:
            m, v = (self._slot(variable, suffix) for suffix in ("adam_m", "adam_v"))
            next_m = 0.9 * m + 0.1 * gradient
            next_v = 0.999 * v + 0.001 * gradient * gradient
            update = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * variable
            assignments += [
                variable.assign(variable - self._rate * update),
                m.assign(next_m),
                v.assign(next_v),
            ]
        return tf.group(*assignments, name=name)

    def _slot(self, variable, suffix):
        return tf.get_variable(
            "%s/%s" % (variable.op.name, suffix),
            variable.shape.as_list(),
            trainable=False,
            initializer=tf.zeros_initializer(),
        )
