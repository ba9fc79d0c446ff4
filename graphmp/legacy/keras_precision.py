"""`tf.keras.mixed_precision.experimental` of TensorFlow 1.15, by what became of it in Keras 2.

As in 1.15, the policy can only be set after
`tf.compat.v1.keras.layers.enable_v2_dtype_behavior()`.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict

import tensorflow.compat.v1 as tf

__all__ = ["LossScaleOptimizer", "Policy", "global_policy", "set_policy"]

_KERAS = tf.compat.v2.keras.mixed_precision
_BY_NAME = "USE_DEFAULT"
global_policy = _KERAS.global_policy
set_policy = _KERAS.set_global_policy


class Policy(_KERAS.Policy):  # type: ignore[name-defined]
    """A policy of Keras 2, with the loss scale that 1.15 kept in it."""

    def __init__(self, name: str, loss_scale: Any = _BY_NAME):
        super().__init__(name)
        usual = "dynamic" if name == "mixed_float16" else None
        self.loss_scale = usual if loss_scale == _BY_NAME else loss_scale
        if self.loss_scale != usual:
            text = (
                "Keras 2 has no loss scale in a policy: compile() uses %s for %s; for %s wrap the"
                " optimizer in LossScaleOptimizer"
            )
            warnings.warn(text % (usual, name, self.loss_scale), stacklevel=2)


class _Made(type):
    """Makes Keras 2's optimizer of 1.15's arguments, and is the class of all of these."""

    def __call__(cls, opt: Any, loss_scale: Any = "dynamic") -> Any:
        return _KERAS.LossScaleOptimizer(opt, **_arguments(loss_scale))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _KERAS.LossScaleOptimizer)


class LossScaleOptimizer(metaclass=_Made):
    """An optimizer with a loss scale: `dynamic`, a number, or an object of TensorFlow."""


def _arguments(loss_scale: Any) -> Dict[str, Any]:
    """Keras 2's arguments for a loss scale.

    Raises:
        ValueError: a dynamic loss scale with another factor than 2.
    """
    if loss_scale == "dynamic":
        return {}
    if not hasattr(loss_scale, "get_config"):
        return {"dynamic": False, "initial_scale": loss_scale}
    config = loss_scale.get_config()
    if "loss_scale_value" in config:
        return {"dynamic": False, "initial_scale": config["loss_scale_value"]}
    if config["multiplier"] != 2:
        raise ValueError("The loss scale is multiplied by %s, not by 2" % config["multiplier"])
    return {
        "initial_scale": config["initial_loss_scale"],
        "dynamic_growth_steps": config["increment_period"],
    }
