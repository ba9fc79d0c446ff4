"""Walks over any graph, without recursion: graphs are deeper than Python's stack."""

from __future__ import annotations

from typing import Callable, Iterable, Optional, Set, TypeVar

_Place = TypeVar("_Place")


def reached(
    starts: Iterable[_Place],
    onwards: Callable[[_Place], Iterable[_Place]],
    through: Optional[Callable[[_Place], object]] = None,
) -> Set[_Place]:
    """The start and all that `onwards` leads to, each visited once.

    With `through`, only nodes for which it holds are passed.
    """
    seen = set(filter(through, starts) if through else starts)
    waiting = list(seen)
    while waiting:
        fresh = set(onwards(waiting.pop())) - seen
        if through:
            fresh = set(filter(through, fresh))
        seen |= fresh
        waiting.extend(fresh)
    return seen
