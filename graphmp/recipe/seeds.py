"""Random ops draw the same numbers as in the float32 build.

TensorFlow 1.15.5 derives the seed of an op without one from the number of ops before it, which
casts change; 2.15 and 2.21 count calls instead. The rehearsal's counts are therefore recorded, and
used again in the graph that is built after it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import internals, patch

_LOCAL = threading.local()
_MODULUS = 2**31 - 1  # as TensorFlow truncates seeds


class _Listener(NamedTuple):
    """A source of seeds for a graph under construction.

    `next` returns one, or None for TensorFlow's.
    """

    graph: Any
    next: Callable[[], Optional[int]]


def _get_seed(original: Callable[..., Any], op_seed: Any) -> Any:
    listener: Optional[_Listener] = getattr(_LOCAL, "listener", None)
    seeds = original(op_seed)
    if (
        listener is None
        or op_seed is not None
        or seeds[1] is None
        or tf.get_default_graph() is not listener.graph
    ):
        return seeds
    count = listener.next()
    return seeds if count is None else (seeds[0], count % _MODULUS)


@contextlib.contextmanager
def collecting(ahead: Callable[[], int]) -> Iterator[List[int]]:
    """Record the counts of the default graph; `ahead()` is the number of missing float32 ops."""
    graph, counts = tf.get_default_graph(), []
    start = internals.op_count(graph)
    with _listening(
        _Listener(graph, lambda: counts.append(internals.op_count(graph) - ahead() - start))
    ):
        yield counts


@contextlib.contextmanager
def repeating(known: Sequence[int], surplus: int) -> Iterator[None]:
    """Make seeds from known counts.

    `surplus` is the number of additional ops in the default graph.
    """
    graph, counts = tf.get_default_graph(), iter(known)
    start = internals.op_count(graph) - surplus

    def following() -> Optional[int]:
        count = next(counts, None)
        return None if count is None else start + count

    with _listening(_Listener(graph, following)):
        yield


@contextlib.contextmanager
def _listening(listener: _Listener) -> Iterator[None]:
    if internals.counts_ops_for_seeds():
        patch.wrap(internals.random_seed(), "get_seed", _get_seed)
    outer, _LOCAL.listener = getattr(_LOCAL, "listener", None), listener
    try:
        yield
    finally:
        _LOCAL.listener = outer
