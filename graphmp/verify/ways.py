"""The ways that values take through a converted body: where gradients get to."""

from __future__ import annotations

from typing import AbstractSet, Iterable, Set

from graphmp.graph.view import Port
from graphmp.verify.sides import Sides


class Ways:
    """Follows values by data."""

    def __init__(self, sides: Sides, apart: AbstractSet[str]):
        """`apart`: nodes that keep and adapt the scales, which take what they look at no further."""
        self._sides, self._apart, self._view = sides, apart, sides.after.view

    def reached(self, starts: Iterable[Port], stops: AbstractSet[Port]) -> Set[str]:
        """The nodes that some outputs lead to, not over others."""
        seen: Set[Port] = set()
        nodes: Set[str] = set()
        waiting = list(starts)
        while waiting:
            port = waiting.pop()
            if port in seen or port in stops:
                continue
            seen.add(port)
            for consumer in self._view.consumers(port.node):
                name = consumer.node
                if consumer.output == port.output and name not in self._apart and not self._only_chooses(name, consumer.slot):
                    nodes.add(name)
                    waiting.extend(Port(name, output) for output in range(self._sides.after.outputs(name)))
        return nodes

    def _only_chooses(self, name: str, slot: int) -> bool:
        """Whether an input is the predicate of a gate."""
        op = self._view.nodes[name].op
        return name in self._sides.added and ((op in ("Select", "SelectV2") and slot == 0) or (op in ("Switch", "RefSwitch") and slot == 1))
