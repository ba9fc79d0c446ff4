"""The training step of each loss: which nodes run before, in and after its updates."""

from __future__ import annotations

from typing import AbstractSet, FrozenSet, List, Sequence

from graphmp.once import once
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.by_products import is_by_product


class Steps:
    """The steps of a graph's losses, which their indices stand for.

    Attributes:
        all: the indices.
        before: for each loss what its gradients are computed of, these included.
        after: for each loss its updates, and what runs after them.
        within: for each loss the indices of those that write its variables before its gradients
            are computed: their steps are parts of its own.
    """

    def __init__(self, graph: TrainingGraph, losses: Sequence[Loss]):
        self._graph, self._losses = graph, losses
        self.all = range(len(losses))
        self.before = [
            graph.view.ancestors([port.node for port in loss.arrivals or loss.checked])
            for loss in losses
        ]
        self.after = [graph.view.descendants(loss.direct) for loss in losses]
        self.within = [self._earlier(number) for number in self.all]
        self._whole = [graph.view.ancestors(after) for after in self.after]

    def _earlier(self, number: int) -> List[int]:
        own, before = self._variables(number), self.before[number]
        others = (
            other
            for other in self.all
            if other != number and not before.isdisjoint(self._losses[other].direct)
        )
        return [other for other in others if own & self._variables(other)]

    def _variables(self, number: int) -> AbstractSet[str]:
        return {
            variable
            for name in self._losses[number].direct
            for variable in self._graph.state.written(name)
        }

    def of(self, name: str) -> FrozenSet[int]:
        """The losses in whose steps a node runs, or may run."""
        return frozenset(number for number in self.all if name in self._whole[number])

    def never_without(self, numbers: Sequence[int], candidates: Sequence[str]) -> AbstractSet[str]:
        """Candidates whose results are used only after updates of some losses.

        They never run without one of these; updates that they follow aside.
        """
        after = frozenset().union(*(self.after[number] for number in numbers))
        joined = frozenset().union(*(self._whole[number] for number in numbers))
        found = [name for name in candidates if name in joined and name not in after]
        view = self._graph.view
        elsewhere = view.ancestors(n for n in self.ends if n not in after) if found else ()
        return {name for name in found if name not in elsewhere}

    @once
    def ends(self) -> List[str]:
        """Nodes without readers that may be run.

        TensorFlow refuses to fetch what is inside a branch of a conditional.
        """
        view = self._graph.view
        return [
            name
            for name in view.nodes
            if name not in self._graph.conditions
            and not view.consumers(name)
            and not view.control_consumers(name)
            # An assignment to a resource variable is followed by a read that is mostly unused.
            and not self._graph.state.variable(name)
            and not is_by_product(view, name)
        ]
