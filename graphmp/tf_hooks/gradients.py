"""Intercepting symbolic gradients: tf.gradients, compute_gradients of optimizers, Keras graphs."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import internals, patch


def install(wrapper: Callable[..., Any]) -> None:
    """Call `wrapper(original, ys, xs, grad_ys=None, name=..., ...)` for every gradient call."""
    patch.wrap(internals.gradients_util(), "_GradientsHelper", wrapper)


def install_aggregation(wrapper: Callable[..., Any]) -> None:
    """Call `wrapper(original, grads, op, ...)` where gradients of one op's outputs are added up."""
    patch.wrap(internals.gradients_util(), "_AggregatedGrads", wrapper)


def install_bfloat16() -> None:
    """Differentiate bfloat16 as other types: TensorFlow 1.15 has no gradients of a loop's state."""
    if hasattr(internals.gradients_util(), "IsTrainable"):
        patch.wrap(internals.gradients_util(), "IsTrainable", _or_bfloat16)


def _or_bfloat16(original: Callable[[Any], bool], value: Any) -> bool:
    dtype = value.dtype if isinstance(value, tf.Tensor) else value
    return original(value) or tf.as_dtype(dtype).base_dtype == tf.bfloat16
