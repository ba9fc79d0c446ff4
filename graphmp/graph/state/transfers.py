"""Values that go on without an edge: put into a queue, a staging area or an accumulator, and taken.

What is taken may have been put in by an earlier run, or by another thread's. Queues and staging
areas hold elements of several components, each of which arrives at the output of its number.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Hashable, List

from graphmp.graph.structure.view import GraphView, Port
from graphmp.once import once
from graphmp.policy.op_sets import (
    ACCUMULATOR_PUSHES,
    ACCUMULATOR_TAKES,
    DEQUEUES,
    ENQUEUES,
    ENTERS,
    EXITS,
    IDENTITIES,
    MERGES,
    STAGES,
    SWITCHES,
    UNSTAGES,
)

_HANDS_ON = ENTERS | EXITS | MERGES | SWITCHES | IDENTITIES
_PUTS = ACCUMULATOR_PUSHES | ENQUEUES | STAGES
_TAKES = ACCUMULATOR_TAKES | DEQUEUES | UNSTAGES


class Transfers:
    """The puts and takes of a graph."""

    def __init__(self, view: GraphView):
        """Nothing is looked for yet."""
        self._view = view

    def arrivals(self, name: str, slot: int) -> List[Port]:
        """The outputs at which an input of a node arrives; none if it puts nothing anywhere.

        Of an accumulator all outputs that are read: a gradient, or its rows.
        """
        op = self._view.nodes[name].op
        first = 0 if op in STAGES else 1
        if op not in _PUTS or slot < first:
            return []
        takes = self._takes.get(self._container(name), ())
        if op in ACCUMULATOR_PUSHES:
            return [
                port
                for take in takes
                for port in sorted({Port(take, c.output) for c in self._view.consumers(take)})
            ]
        return [Port(take, slot - first) for take in takes]

    def departures(self, port: Port) -> List[Port]:
        """The outputs that are put in and arrive at an output; none if it takes nothing out."""
        return [
            given
            for name in self.puts(port.node)
            for slot, given in enumerate(self._view.inputs(name))
            if port in self.arrivals(name, slot)
        ]

    def puts(self, name: str) -> List[str]:
        """The nodes that put in what a node takes out; none if it takes nothing."""
        if self._view.nodes[name].op not in _TAKES:
            return []
        return self._puts.get(self._container(name), [])

    @once
    def _takes(self) -> Dict[Hashable, List[str]]:
        return self._by_container(_TAKES)

    @once
    def _puts(self) -> Dict[Hashable, List[str]]:
        return self._by_container(_PUTS)

    def _by_container(self, ops: FrozenSet[str]) -> Dict[Hashable, List[str]]:
        found: Dict[Hashable, List[str]] = {}
        for name, node in self._view.nodes.items():
            if node.op in ops:
                found.setdefault(self._container(name), []).append(name)
        return found

    def _container(self, name: str) -> Hashable:
        """A mark of what a node puts into or takes out of: nodes may share it by a name."""
        node = self._view.nodes[name]
        if node.op not in STAGES | UNSTAGES:
            node = self._view.nodes[self._view.behind(self._view.inputs(name)[0], _HANDS_ON).node]
        shared = node.attr["shared_name"].s if "shared_name" in node.attr else b""
        own = node.attr["container"].s if "container" in node.attr else b""
        return (own, shared) if shared else node.name
