"""The nodes of gradient code: from its seeds to the last that need the forward pass."""

from __future__ import annotations

from typing import AbstractSet, Sequence, Set

from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import (
    ADDS_OF_MANY,
    MERGES,
    NEXT_ITERATIONS,
    SUMS,
    SWITCHES,
    VARIABLE_OPS,
)
from graphmp.policy.traits import KEEPS_VALUES
from graphmp.scaling.losses.discovery.multiples import FACTORS, Multiples
from graphmp.scaling.losses.discovery.searched import SearchedGraph

_LAST = KEEPS_VALUES - {"Enter", "ExpandDims", "Merge", "Switch"} | {"BiasAddGrad", "Sum"}


class Extent:
    """Answers for one graph."""

    def __init__(self, graph: SearchedGraph, multiples: Multiples):
        self._graph, self._view, self._multiples = graph, graph.view, multiples

    def nodes(
        self, seeds: Sequence[Port], region: AbstractSet[str], outside: AbstractSet[str]
    ) -> Set[str]:
        """The nodes of a call.

        Args:
            seeds: its start.
            region: their multiples.
            outside: multiples of other calls' seeds.
        """
        graph = self._graph
        starts = graph.products if graph.multiply(region) else VARIABLE_OPS
        ahead = [name for name in graph.order if graph.op(name) in starts and name not in region]
        forward = self._view.followed(ahead, lambda name: name not in region)
        counts = region & graph.needed | self._idle(region)
        leading = self._view.ancestors(forward, control=False) - region - outside
        last = [
            name
            for name in counts
            if self._needs_forward(name, region, forward) or self._multiplies_as(name, leading)
        ]
        found = self._to_its_end(self._view.traced(last, region.__contains__), counts, region)
        return found | {seed.node for seed in seeds}

    def for_it_alone(self, nodes: AbstractSet[str], seeds: Sequence[Port]) -> Set[str]:
        """Nodes that only gradient code reads, up to matmuls and nodes computed from constants."""
        found: Set[str] = set()
        own = nodes - {seed.node for seed in seeds}
        waiting = [port.node for name in own for port in self._view.inputs(name)]
        while waiting:
            name = waiting.pop()
            if name in nodes or name in found or self._graph.op(name) in self._graph.products:
                continue
            inputs = self._view.inputs(name)
            if not inputs and self._graph.op(name) != "Const":
                continue
            readers = (consumer.node for consumer in self._view.consumers(name))
            if all(reader in nodes or reader in found for reader in readers):
                found.add(name)
                waiting += [port.node for port in inputs]
        return found

    def _to_its_end(
        self, nodes: Set[str], counts: AbstractSet[str], region: AbstractSet[str]
    ) -> Set[str]:
        """Gradient code with its final nodes that don't read the forward pass.

        Sums, copies, loop sums.
        """
        known = 0
        while len(nodes) > known:
            known = len(nodes)
            for name in self._graph.order:
                if name in counts and name not in nodes and self._may_end(name, nodes, region):
                    nodes |= self._view.traced([name], region.__contains__)
            for merge, again in self._multiples.from_zeros.items():
                if again in counts and self._adds_up(merge, again, nodes):
                    nodes |= self._view.traced([again], region.__contains__)
        return nodes

    def _adds_up(self, merge: str, again: str, nodes: AbstractSet[str]) -> bool:
        """Whether a loop variable is only a sum of gradients over its iterations."""
        op, values = self._graph.op, self._graph.values

        def adds(name: str) -> bool:
            return name not in nodes and op(name) in NEXT_ITERATIONS | SUMS | {"Identity"}

        seen = reached(
            [again], lambda name: [port.node for port in values(name)] if adds(name) else []
        )
        terms = {name for name in seen if not adds(name)}
        before = {
            name
            for name in terms
            if op(name) in SWITCHES and self._view.inputs(name)[0].node == merge
        }
        return len(before) == 1 and before < terms and terms <= nodes | before

    def _may_end(self, name: str, nodes: AbstractSet[str], region: AbstractSet[str]) -> bool:
        """Whether a node without forward inputs belongs to gradient code.

        An unread copy is the user's.
        """
        op, view = self._graph.op(name), self._view
        fetched = op == "Identity" and not view.consumers(name) and not view.controls(name)
        values = {
            port.node
            for port in self._graph.values(name)
            if port.node in nodes or not self._graph.is_zero(port)
        }
        of_branch = op in MERGES and len(values) < len(
            view.inputs(name)
        )  # a gradient if a branch is taken, else zeros
        if fetched or not (op in _LAST | ADDS_OF_MANY or op.endswith("Grad") or of_branch):
            return False
        return bool(nodes & values) and values <= (region if op in ADDS_OF_MANY else nodes)

    def _idle(self, region: AbstractSet[str]) -> Set[str]:
        """The nodes of a region without consumers."""
        outside = {
            name
            for name in region
            if any(consumer.node not in region for consumer in self._view.consumers(name))
        }
        return set(region) - self._view.ancestors(outside, control=False)

    def _needs_forward(
        self, name: str, region: AbstractSet[str], forward: AbstractSet[str]
    ) -> bool:
        op = self._graph.op(name)
        law = rule(op)
        by_slot = law.slots is not None and law.name == "linear"
        values = self._graph.values(name)
        return (
            op in self._graph.products
            or by_slot
            or any(port.node in forward and port.node not in region for port in values)
        )

    def _multiplies_as(self, name: str, leading: AbstractSet[str]) -> bool:
        """Whether a node multiplies by the same factor as a forward op of its type.

        For example 1 / sqrt(variance).
        """
        op = self._graph.op(name)
        readers = (
            consumer.node
            for port in self._graph.values(name)
            if port.node in leading
            for consumer in self._view.consumers(port.node)
        )
        return rule(op).name in FACTORS and any(
            reader in leading and self._graph.op(reader) == op for reader in readers
        )
