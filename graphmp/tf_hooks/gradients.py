"""Listening in on symbolic gradients: tf.gradients, every optimizer's compute_gradients, Keras in graph mode."""

from __future__ import annotations

from typing import Any, Callable

from graphmp.tf_hooks import internals, patch


def install(wrapper: Callable[..., Any]) -> None:
    """Calls `wrapper(original, ys, xs, grad_ys=None, name=..., ...)` in the place of every gradient computation."""
    patch.wrap(internals.gradients_util(), "_GradientsHelper", wrapper)


def install_aggregation(wrapper: Callable[..., Any]) -> None:
    """Calls `wrapper(original, grads, op, ...)` where gradients of one op's outputs are summed."""
    patch.wrap(internals.gradients_util(), "_AggregatedGrads", wrapper)
