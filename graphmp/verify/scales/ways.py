"""The paths of values through a converted body: where gradients go.

The results of a call include gradients that a function divided by a scale inside. Such a gradient
is represented by an output that no node has: only a flag of the call tells whether it is finite, as
the function may have turned infinity into a finite value.
"""

from __future__ import annotations

from typing import AbstractSet, FrozenSet, Iterable, Iterator, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.state.transfers import Transfers
from graphmp.graph.structure.view import Consumer, Port
from graphmp.graph.structure.walk import reached
from graphmp.once import once
from graphmp.policy.op_sets import (
    ENQUEUES,
    FINITE_TESTS,
    SELECTS,
    STAGES,
    SWITCHES,
    UPDATE_PREFIXES,
)
from graphmp.verify.sides import Sides

_QUEUED = ENQUEUES | STAGES
_FIRST = -2  # the index for output 0; -1 is a control edge


def hidden(port: Port) -> Port:
    """The gradients inside a function that reach an output of its call."""
    return Port(port.node, _FIRST - port.output)


def is_hidden(port: Port) -> bool:
    """Whether an output represents such gradients."""
    return port.output <= _FIRST


class Ways:
    """Follows values by data, through queues and staging areas too."""

    def __init__(self, sides: Sides, apart: AbstractSet[str]):
        """`apart`: nodes that store and adapt the scales, whose inputs aren't followed."""
        self._sides, self._apart, self._view = sides, apart, sides.after.view
        self._transfers = Transfers(self._view)

    def reached(self, starts: Iterable[Port], stops: AbstractSet[Port]) -> Set[str]:
        """The nodes that some outputs lead to, not through others."""
        ports = reached(
            (hidden(port) if is_hidden(port) else port for port in starts),
            lambda port: [*self._results(port), *self._arrivals(port)],
            lambda port: port not in stops,
        )
        arrived = {arrival.node for port in ports for arrival in self._arrivals(port)}
        return arrived | {c.node for port in ports for c in self._readers(port)}

    def _results(self, port: Port) -> Iterator[Port]:
        """The outputs of the nodes that read an output."""
        for consumer in self._readers(port):
            for output in range(self._sides.after.outputs(consumer.node)):
                yield Port(consumer.node, output)

    @once
    def arrivals(self) -> FrozenSet[Port]:
        """The outputs that take values out of queues and staging areas, to train with them."""
        return frozenset(
            port
            for name, node in self._view.nodes.items()
            if node.op in _QUEUED
            for slot in range(len(self._view.inputs(name)))
            for port in self._transfers.arrivals(name, slot)
            if port.node in self._before_training
        )

    def _arrivals(self, port: Port) -> Iterator[Port]:
        """Those of `arrivals` at which an output arrives."""
        for consumer in self._readers(port) if self.arrivals else ():
            if self._view.nodes[consumer.node].op in _QUEUED:
                found = self._transfers.arrivals(consumer.node, consumer.slot)
                yield from (arrival for arrival in found if arrival in self.arrivals)

    @once
    def _before_training(self) -> AbstractSet[str]:
        """The nodes that a write which trains takes values from, by way of variables too."""
        state = self._sides.after.state
        trained = state.collected(tf.GraphKeys.TRAINABLE_VARIABLES) or frozenset()
        fresh = {
            name
            for name in state.writes
            if self._view.nodes[name].op.startswith(UPDATE_PREFIXES)
            or state.written(name) & trained
        }
        found: Set[str] = set()
        while fresh:
            found |= self._view.ancestors(fresh, control=False)
            fresh = {name for name in state.writes if state.written(name) & found} - found
        return found

    def _readers(self, port: Port) -> List[Consumer]:
        return [
            c
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
