"""Intercepting symbolic gradients: tf.gradients, compute_gradients of optimizers, Keras graphs."""

from __future__ import annotations

from typing import Any, Callable

from graphmp.tf_hooks import internals, patch


def install(wrapper: Callable[..., Any]) -> None:
    """Call `wrapper(original, ys, xs, grad_ys=None, name=..., ...)` for every gradient call."""
    patch.wrap(internals.gradients_util(), "_GradientsHelper", wrapper)


def install_aggregation(wrapper: Callable[..., Any]) -> None:
    """Call `wrapper(original, grads, op, ...)` where gradients of one op's outputs are added up."""
    patch.wrap(internals.gradients_util(), "_AggregatedGrads", wrapper)
