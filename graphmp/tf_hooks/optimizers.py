"""Intercepting `apply_gradients` of TensorFlow's optimizers and of classes derived from them."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import patch


def install(wrapper: Callable[..., Any]) -> None:
    """Call `wrapper(original, optimizer, grads_and_vars, ...)` in place of `apply_gradients`.

    Classes defined later are not covered: call it again before their use, it is idempotent.
    """
    for cls in _classes(tf.train.Optimizer):
        if "apply_gradients" in vars(cls):
            patch.wrap(cls, "apply_gradients", wrapper)


def delegates(optimizer: Any) -> bool:
    """Whether an optimizer passes its gradients to an inner one (SyncReplicas, averages)."""
    return any(isinstance(value, tf.train.Optimizer) for value in vars(optimizer).values())


def _classes(base: Any) -> Iterator[Any]:
    yield base
    for derived in base.__subclasses__():
        yield from _classes(derived)
