"""Gradients that pass queues and staging areas on their way to updates."""

from __future__ import annotations

from typing import AbstractSet, Callable, List

from graphmp.graph.state.transfers import Transfers
from graphmp.graph.structure.view import GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.once import once
from graphmp.policy.op_sets import DEQUEUES, ENQUEUES, STAGES, UNSTAGES
from graphmp.policy.policy import tensor_core_ops


def behind_queues(
    view: GraphView, transfers: Transfers, gradients: AbstractSet[str]
) -> AbstractSet[str]:
    """The nodes behind gradients that come out of a queue or a staging area."""
    puts = ENQUEUES | STAGES
    if not any(node.op in puts for node in view.nodes.values()):
        return frozenset()
    behind = view.descendants(gradients, control=False)
    arrived = {
        port.node
        for name in behind
        if view.nodes[name].op in puts
        for slot, given in enumerate(view.inputs(name))
        if given.node in behind
        for port in transfers.arrivals(name, slot)
    }
    return view.descendants(arrived, control=False)


class PutIn:
    """Finds what is put into queues and comes out of them as a gradient."""

    def __init__(self, view: GraphView, transfers: Transfers, is_float: Callable[[Port], bool]):
        """Nothing is looked for yet."""
        self._view, self._transfers, self._is_float = view, transfers, is_float

    def ahead_of(self, port: Port) -> List[Port]:
        """The values that come out of queues ahead of an output that no matmul is before.

        An output behind a matmul is of this step, and a queue before that one of data.
        """
        if not (self._takes and self._multiplied) or port.node in self._multiplied:
            return []
        before = reached([port], lambda each: self._view.inputs(each.node))
        return [
            given
            for taken in sorted(each for each in before if each.node in self._takes)
            for given in self._transfers.departures(taken)
            if self._is_float(given)
        ]

    @once
    def _takes(self) -> AbstractSet[str]:
        ops = DEQUEUES | UNSTAGES
        return {name for name, node in self._view.nodes.items() if node.op in ops}

    @once
    def _multiplied(self) -> AbstractSet[str]:
        """The nodes that depend on a matmul or convolution by data."""
        ops = frozenset(tensor_core_ops())
        starts = [name for name, node in self._view.nodes.items() if node.op in ops]
        return self._view.descendants(starts, control=False)
