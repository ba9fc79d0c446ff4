"""Writes that follow updates in the original."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Set

from graphmp.graph.structure.view import GraphView
from graphmp.verify.sides import Sides


def followed(sides: Sides, updates: Dict[str, FrozenSet[str]]) -> Dict[str, FrozenSet[str]]:
    """The scales of the nearest updates that each write follows in the original."""
    view = sides.before.view
    found: Dict[str, Set[str]] = {}
    waiting = [
        (name, reader) for name in updates if name in view.nodes for reader in _after(view, name)
    ]
    seen: Set[object] = set()
    while waiting:
        start, name = waiting.pop()
        key = (updates[start], name)
        if key in seen:
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
