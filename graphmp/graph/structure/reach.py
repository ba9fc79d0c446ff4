"""Which of several nodes each node depends on, found in one walk."""

from __future__ import annotations

import collections
from typing import Deque, Dict, Iterator, Sequence

from graphmp.graph.structure.order import whole_order
from graphmp.graph.structure.view import GraphView


def sources_of(view: GraphView, sources: Sequence[str]) -> Dict[str, int]:
    """For each descendant of a source, by data or control, a bit for each source before it.

    Bit `i` stands for `sources[i]`; a source has its own bit. Absent nodes depend on none.
    """
    bits: Dict[str, int] = collections.defaultdict(int)
    for place, name in enumerate(sources):
        bits[name] |= 1 << place
    queued = view.descendants(sources)
    waiting: Deque[str] = collections.deque(name for name in whole_order(view) if name in queued)
    waiting.extend(sorted(queued - set(waiting)))  # nodes of cycles have no order
    while waiting:
        name = waiting.popleft()
        queued.discard(name)
        for after in _followers(view, name):
            if bits[name] & ~bits[after]:
                bits[after] |= bits[name]
                if after not in queued:
                    queued.add(after)
                    waiting.append(after)
    return bits


def _followers(view: GraphView, name: str) -> Iterator[str]:
    yield from (consumer.node for consumer in view.consumers(name))
    yield from view.control_consumers(name)
