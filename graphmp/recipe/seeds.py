"""Random ops draw what they draw in the float32 build.

TensorFlow 1.15.5 makes the seed of an op without one from the number of ops before it, which casts change; 2.15 and 2.21 count calls instead.
So the rehearsal's counts are remembered, and used again in the graph that is built after it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.hooks import internals, patch

_LOCAL = threading.local()
_MODULUS = 2**31 - 1  # as TensorFlow truncates seeds


class _Counts:
    """Numbers of ops before calls for a seed, in one graph: collected, or given back shifted by `start`."""

    def __init__(self, graph: Any, start: int, ahead: Callable[[], int], known: Optional[Sequence[int]]):
        self.graph = graph
        self.collected: List[int] = []
        self._start = start
        self._ahead = ahead
        self._known = None if known is None else iter(known)

    def next(self) -> Optional[int]:
        """What the next seed is made from; None to leave it to TensorFlow."""
        if self._known is None:
            self.collected.append(internals.op_count(self.graph) - self._ahead() - self._start)
            return None
        count = next(self._known, None)
        return None if count is None else self._start + count


def _get_seed(original: Callable[..., Any], op_seed: Any) -> Any:
    counts = getattr(_LOCAL, "counts", None)
    seeds = original(op_seed)
    if counts is None or op_seed is not None or seeds[1] is None or tf.get_default_graph() is not counts.graph:
        return seeds
    count = counts.next()
    return seeds if count is None else (seeds[0], count % _MODULUS)


@contextlib.contextmanager
def collecting(ahead: Callable[[], int]) -> Iterator[List[int]]:
    """Collects the counts of the default graph while it lasts, from the first op on; `ahead()` says how many ops the float32 graph lacks."""
    with _counting(_Counts(tf.get_default_graph(), internals.op_count(tf.get_default_graph()), ahead, None)) as counts:
        yield counts.collected


@contextlib.contextmanager
def repeating(known: Sequence[int], surplus: int) -> Iterator[None]:
    """Seeds are made from known counts while it lasts; `surplus` is how many ops the default graph has more than the float32 one."""
    graph = tf.get_default_graph()
    with _counting(_Counts(graph, internals.op_count(graph) - surplus, lambda: 0, known)):
        yield


@contextlib.contextmanager
def _counting(counts: _Counts) -> Iterator[_Counts]:
    if internals.counts_ops_for_seeds():
        patch.wrap(internals.random_seed(), "get_seed", _get_seed)
    outer, _LOCAL.counts = getattr(_LOCAL, "counts", None), counts
    try:
        yield counts
    finally:
        _LOCAL.counts = outer
