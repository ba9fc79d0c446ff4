"""graphmp's rewrite with a flood fill in place of the minimum cut, to measure the cut's benefit.

A unit left free by painting becomes half if a half unit reaches it through free units, along edges
in either direction; a group is reached as one. A constant is half if all its readers are, as under
the cut.
"""

from __future__ import annotations

from typing import Iterator, List, Set

from graphmp.policy.reason import Reason
from graphmp.rewrite.decisions import Decisions, decided
from graphmp.rewrite.painting.groups import Groups
from graphmp.rewrite.painting.paint import FLOAT, FREE, HALF, Paint
from graphmp.rewrite.problem import Problem
from graphmp.rewrite.units import TypedGraph


def flooded(problem: Problem) -> Decisions:
    """Decisions with a flood fill in the cut's place, for `graphmp.rewrite.pipeline.rewrite`."""
    decisions = decided(problem)
    graph, groups, wanted = decisions.graph, decisions.groups, decisions.wanted
    return decisions._replace(placed=_flood(graph, groups, wanted))


def _flood(graph: TypedGraph, groups: Groups, painted: List[Paint]) -> List[Paint]:
    """HALF or FLOAT for each unit left free by painting."""
    half = _reached(graph, groups, painted)
    decided = [
        p
        if p.colour != FREE
        else Paint(HALF, Reason("flood", "half precision reaches it"))
        if number in half
        else Paint(FLOAT, Reason("flood", "nothing reaches it"))
        for number, p in enumerate(painted)
    ]
    for number, p in enumerate(painted):
        if p.colour == FREE and graph.node(number).op == "Const":
            readers = [
                graph.reader(consumer)
                for consumer in graph.view.consumers(graph.units[number].node)
            ]
            all_half = readers and all(
                reader >= 0 and decided[reader].colour == HALF for reader in readers
            )
            decided[number] = Paint(
                HALF if all_half else FLOAT, Reason("flood", "a constant follows its readers")
            )
    return decided


def _reached(graph: TypedGraph, groups: Groups, painted: List[Paint]) -> Set[int]:
    waiting = [number for number, p in enumerate(painted) if p.colour == HALF]
    seen = set(waiting)
    while waiting:
        for other in _neighbours(graph, waiting.pop()):
            if (
                other not in seen
                and painted[other].colour == FREE
                and graph.node(other).op != "Const"
            ):
                members = groups.members[groups.of[other]]
                seen.update(members)
                waiting.extend(members)
    return seen


def _neighbours(graph: TypedGraph, number: int) -> Iterator[int]:
    yield from graph.upstream(number)
    yield from graph.downstream(number)
