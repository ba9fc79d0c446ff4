"""Which nodes are multiples of seeds: scaled if these are, by the same factor."""

from __future__ import annotations

import heapq
from typing import AbstractSet, Dict, Iterable, List, Optional, Sequence, Set

from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import CALLS, MERGES, NEXT_ITERATIONS
from graphmp.scaling.losses.discovery.searched import SearchedGraph

# The input that gradients arrive at; for a product any, but only one.
FACTORS = {"product": None, "quotient": 0, "solution": 1}


class Multiples:
    """Answers for one graph."""

    def __init__(self, graph: SearchedGraph):
        self._graph, self._view = graph, graph.view

    def of(self, seeds: Sequence[Port], among: Optional[AbstractSet[str]] = None) -> Set[str]:
        """Nodes that are multiples of the seeds, among those that writes need or else `among`.

        A loop variable with an initial value of zeros is one if its next value is.
        """
        among = self._graph.needed if among is None else among
        assumed = self._assumed(seeds, among) if self.from_zeros else {}
        while True:
            found = self._multiples(seeds, among, assumed)
            led_to = found
            if assumed:
                readers = [c.node for seed in seeds for c in self._view.consumers(seed.node)]
                led_to = self._view.followed(readers, found.__contains__)
            wrong = [name for name, again in assumed.items() if again not in led_to]
            if not wrong:
                return found
            for name in wrong:
                del assumed[name]

    @once
    def from_zeros(self) -> Dict[str, str]:
        """Loop variables with an initial value of zeros, each with its next value."""
        found = {}
        for name in (name for name, node in self._view.nodes.items() if node.op in MERGES):
            ports = self._view.inputs(name)
            again = [port.node for port in ports if self._graph.op(port.node) in NEXT_ITERATIONS]
            first = [port for port in ports if port.node not in again]
            if len(again) == 1 and all(map(self._graph.is_zero, first)):
                found[name] = again[0]
        return found

    def _assumed(self, seeds: Sequence[Port], among: AbstractSet[str]) -> Dict[str, str]:
        """The loop variables that may be multiples of seeds: those that depend on them."""
        after = self._view.descendants({seed.node for seed in seeds}, control=False)
        return {
            name: again
            for name, again in self.from_zeros.items()
            if name in after and name in among
        }

    def _multiples(
        self, seeds: Sequence[Port], among: AbstractSet[str], assumed: Iterable[str]
    ) -> Set[str]:
        """Nodes that are multiples of the seeds, if `assumed` are.

        Readers of multiples are looked at in topological order, each once.
        """
        starts, found, carries = set(seeds), set(assumed), self._graph.floats.carries
        waiting: List[int] = []
        for name in {*(seed.node for seed in seeds), *found}:
            waiting += self._readers(name, among)
        heapq.heapify(waiting)
        last = -1
        while waiting:
            place = heapq.heappop(waiting)
            if place <= last:
                continue
            last, name = place, self._graph.order[place]
            scaled = {
                slot
                for slot, port in enumerate(self._view.inputs(name))
                if port in starts or (port.node in found and carries(port))
            }
            if scaled and self._is_linear(name, scaled):
                found.add(name)
                for each in self._readers(name, among):
                    heapq.heappush(waiting, each)
        return found

    def _readers(self, name: str, among: AbstractSet[str]) -> List[int]:
        """The places of the readers of a node that are among others."""
        readers = (consumer.node for consumer in self._view.consumers(name))
        return [self._graph.place[reader] for reader in readers if reader in among]

    def _is_linear(self, name: str, scaled: AbstractSet[int]) -> bool:
        """Whether a node is scaled by the factor by which some inputs are."""
        op = self._graph.op(name)
        law = rule(op)
        if op in self._graph.floats.functions or op in CALLS or op in MERGES:
            return True
        carried = self._graph.carried(name)
        if law.name in FACTORS:
            own = sorted(carried) if law.slots is None else law.slots
            place = FACTORS[law.name]
            taken = own if place is None else own[place : place + 1]
            return len(scaled) == 1 and scaled <= set(taken)
        if law.name not in ("linear", "reduce"):
            return law.name == "each"
        if law.slots is not None:
            carried = {slot: carried[slot] for slot in law.slots if slot in carried}
        return scaled <= set(carried) and all(
            slot in scaled or self._graph.is_zero(port) for slot, port in carried.items()
        )
