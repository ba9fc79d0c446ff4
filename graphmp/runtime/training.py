"""Recognising a run that trains: one that writes what depends on a gradient."""

from __future__ import annotations

import threading
import weakref
from typing import AbstractSet, Any, Callable

import tensorflow.compat.v1 as tf

from graphmp.graph.live import ancestors, as_ops, is_update, is_write

_GRADIENTS: weakref.WeakKeyDictionary[Any, AbstractSet[str]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def record_gradients(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Stands in for TensorFlow's gradient function: remembers the ops that its results come from."""
    results = original(*args, **kwargs)
    with _LOCK:
        graph = tf.get_default_graph()
        names = {op.name for op in as_ops([r for r in results if r is not None], graph)}
        _GRADIENTS[graph] = names | _GRADIENTS.get(graph, frozenset())
    return results


def trains(graph: Any, fetches: Any) -> bool:
    """Whether fetching these would train: some write they depend on is an optimizer's kernel or depends on a gradient.

    A graph that was imported carries no record of its gradients; there the optimizer's kernels alone tell.
    """
    writes = [op for op in ancestors(as_ops(fetches, graph)) if is_write(op)]
    if any(is_update(op) for op in writes):
        return True
    recorded = _GRADIENTS.get(graph, frozenset())
    return any(op.name in recorded for op in ancestors(writes, control=False))
