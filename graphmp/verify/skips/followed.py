"""Writes that follow updates in the original."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Set

from graphmp.graph.structure.view import GraphView
from graphmp.verify.sides import Sides


def followed(
    sides: Sides, updates: Dict[str, FrozenSet[str]], out_of_loops: bool = False
) -> Dict[str, FrozenSet[str]]:
    """The scales of the nearest updates that each write follows in the original.

    A step in a while loop is one iteration: what is outside runs once for all of them, and counts
    only with `out_of_loops`.
    """
    view, frames = sides.before.view, {} if out_of_loops else sides.before.frames
    found: Dict[str, Set[str]] = {}
    waiting = [
        (name, reader) for name in updates if name in view.nodes for reader in _after(view, name)
    ]
    seen: Set[object] = set()
    while waiting:
        start, name = waiting.pop()
        path = frames.get(start, ())
        key = (updates[start], path, name)
        if key in seen or frames.get(name, ())[: len(path)] != path:
            continue
        seen.add(key)
        if name in sides.after.state.writes:
            found.setdefault(name, set()).update(updates[start])
            if name in updates:
                continue
        waiting.extend((start, reader) for reader in _after(view, name))
    return {name: frozenset(scales) for name, scales in found.items()}


def _after(view: GraphView, name: str) -> List[str]:
    return [
        *(consumer.node for consumer in view.consumers(name)),
        *view.control_consumers(name),
    ]
