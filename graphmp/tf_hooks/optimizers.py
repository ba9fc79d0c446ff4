"""Listening in on `apply_gradients`, of TensorFlow's own optimizers and of those that users derive from them."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import patch


def install(wrapper: Callable[..., Any]) -> None:
    """Calls `wrapper(original, optimizer, grads_and_vars, ...)` in the place of `apply_gradients`.

    Classes made later are not covered: call it again before their use, it is idempotent.
    """
    for cls in _classes(tf.train.Optimizer):
        if "apply_gradients" in vars(cls):
            patch.wrap(cls, "apply_gradients", wrapper)


def delegates(optimizer: Any) -> bool:
    """Whether the optimizer hands its gradients to another one that it holds (SyncReplicas, moving averages)."""
    return any(isinstance(value, tf.train.Optimizer) for value in vars(optimizer).values())


def _classes(base: Any) -> Iterator[Any]:
    yield base
    for derived in base.__subclasses__():
        yield from _classes(derived)
