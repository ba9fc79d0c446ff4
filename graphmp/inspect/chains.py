"""The units that led to a unit's dtype, one after the other."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Iterator, List

from graphmp.inspect.rules import kind_of
from graphmp.rewrite.paint import HALF
from graphmp.rewrite.pipeline import Decisions


def chain_to(decisions: Decisions, number: int) -> List[int]:
    """Units from the one that a unit's dtype comes from to the unit itself."""
    graph, painted = decisions.graph, decisions.painted
    if painted[number].colour == HALF:
        return way_to_allow(decisions, number, graph.upstream)[::-1]
    chain = [number]
    while painted[chain[-1]].because >= 0 and painted[chain[-1]].because not in chain:
        chain.append(painted[chain[-1]].because)
    reason = painted[chain[-1]].reason
    named = reason.partition(": ")[2].split(" ")[0]
    if reason.startswith("range guard: "):
        chain += _route(
            chain[-1],
            graph.upstream,
            lambda n: graph.units[n].node == named,
            lambda n: painted[n].reason == reason,
        )[1:]
    elif reason.startswith("gradient of a denied op: "):
        chain += [n for n in graph.units_of(named) if painted[n].colour != HALF][:1]
    return chain[::-1]


def way_to_allow(
    decisions: Decisions, number: int, neighbours: Callable[[int], Iterable[int]]
) -> List[int]:
    """The shortest way through half units to one that is half for its own sake."""
    _, groups, painted = decisions

    def near(n: int) -> Iterator[int]:
        yield from neighbours(n)
        yield from groups.members[groups.of[n]]

    return _route(
        number,
        near,
        lambda n: kind_of(painted[n].reason) in ("allow", "user rule"),
        lambda n: painted[n].colour == HALF,
    )


def _route(
    start: int,
    neighbours: Callable[[int], Iterable[int]],
    ends: Callable[[int], bool],
    through: Callable[[int], bool],
) -> List[int]:
    """The shortest way from a unit to one where it ends, both included; the unit alone where there is no way."""
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
