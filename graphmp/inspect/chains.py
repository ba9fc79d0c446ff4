"""The chain of units that led to a unit's dtype."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Iterator, List

from graphmp.policy.reason import ALLOW, GRADIENT, RANGE_GUARD, USER_RULE
from graphmp.rewrite.pipeline import Decisions


def chain_to(decisions: Decisions, number: int) -> List[int]:
    """Units from the one that determines a unit's dtype to the unit itself."""
    graph, placed = decisions.graph, decisions.placed
    if decisions.is_half(number):
        return way_to_allow(decisions, number, graph.upstream)[::-1]
    chain = [number]
    while placed[chain[-1]].because >= 0 and placed[chain[-1]].because not in chain:
        chain.append(placed[chain[-1]].because)
    reason = placed[chain[-1]].reason
    if reason.kind == RANGE_GUARD:
        chain += _route(
            chain[-1],
            graph.upstream,
            lambda n: graph.units[n].node == reason.node,
            lambda n: placed[n].reason == reason,
        )[1:]
    elif reason.kind == GRADIENT:
        chain += [n for n in graph.units_of(reason.node) if not decisions.is_half(n)][:1]
    return chain[::-1]


def way_to_allow(
    decisions: Decisions, number: int, neighbours: Callable[[int], Iterable[int]]
) -> List[int]:
    """The shortest path through half units to one that is half by its own rule."""
    groups = decisions.groups

    def near(n: int) -> Iterator[int]:
        yield from neighbours(n)
        yield from groups.members[groups.of[n]]

    return _route(
        number,
        near,
        lambda n: decisions.placed[n].reason.kind in (ALLOW, USER_RULE),
        decisions.is_half,
    )


def _route(
    start: int,
    neighbours: Callable[[int], Iterable[int]],
    ends: Callable[[int], bool],
    through: Callable[[int], bool],
) -> List[int]:
    """The shortest path from a unit to a goal, both included; only the unit if there is no path."""
    before: Dict[int, int] = {start: start}
    waiting = [start]
    for unit in waiting:
        if ends(unit):
            route = [unit]
            while route[-1] != start:
                route.append(before[route[-1]])
            return route[::-1]
        for other in neighbours(unit):
            if other not in before and (through(other) or ends(other)):
                before[other] = unit
                waiting.append(other)
    return [start]
