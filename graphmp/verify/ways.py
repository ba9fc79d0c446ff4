"""The paths of values through a converted body: where gradients go.

The results of a call include gradients that a function divided by a scale inside. Such a gradient
is represented by an output that no node has: only a flag of the call tells whether it is finite, as
the function may have turned infinity into a finite value.
"""

from __future__ import annotations

from typing import AbstractSet, Iterable, List, Set

from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import FINITE_TESTS, SELECTS, SWITCHES
from graphmp.verify.sides import Sides

_FIRST = -2  # the index for output 0; -1 is a control edge


def hidden(port: Port) -> Port:
    """The gradients inside a function that reach an output of its call."""
    return Port(port.node, _FIRST - port.output)


def is_hidden(port: Port) -> bool:
    """Whether an output represents such gradients."""
    return port.output <= _FIRST


class Ways:
    """Follows values by data."""

    def __init__(self, sides: Sides, apart: AbstractSet[str]):
        """`apart`: nodes that store and adapt the scales, whose inputs aren't followed."""
        self._sides, self._apart, self._view = sides, apart, sides.after.view

    def reached(self, starts: Iterable[Port], stops: AbstractSet[Port]) -> Set[str]:
        """The nodes that some outputs lead to, not through others."""
        ports = reached(
            (hidden(port) if is_hidden(port) else port for port in starts),
            lambda port: [
                Port(name, output)
                for name in self._readers(port)
                for output in range(self._sides.after.outputs(name))
            ],
            lambda port: port not in stops,
        )
        return {name for port in ports for name in self._readers(port)}

    def _readers(self, port: Port) -> List[str]:
        return [
            c.node
            for c in self._view.consumers(port.node)
            if c.output == port.output
            and c.node not in self._apart
            and not self._only_chooses(c.node, c.slot)
        ]

    def past(self, starts: Iterable[Port], said: AbstractSet[Port]) -> Set[str]:
        """The nodes that unchecked outputs lead to, not through checked ones."""
        left = {port for port in starts if port not in said}
        inside = set(filter(is_hidden, left))
        return self.reached(inside, frozenset()) | self.reached(left - inside, said)

    def _only_chooses(self, name: str, slot: int) -> bool:
        """Whether an input is the predicate of a gate or a conditional, or tested for finiteness.

        The model's own handling of gradients that aren't finite depends on them in no other way.
        """
        op = self._view.nodes[name].op
        return (
            (op in SELECTS and slot == 0 and name in self._sides.added)
            or (op in SWITCHES and slot == 1)
            or op in FINITE_TESTS
        )
