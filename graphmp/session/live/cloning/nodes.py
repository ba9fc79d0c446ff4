"""The nodes of a live graph that its conversion knows, and the nodes added by conversions."""

from __future__ import annotations

from typing import AbstractSet, Any, FrozenSet, NamedTuple, Sequence

from graphmp.graph.structure.frames import loop_depths
from graphmp.graph.structure.view import GraphView
from graphmp.session.live.cloning.clones import Clones
from graphmp.session.live.cloning.stand_ins import StandIns
from graphmp.session.live.gradient_values import Feeding, GradientValues


class LiveNodes(NamedTuple):
    """The nodes of a live graph, as its last conversion sees them; immutable.

    Attributes:
        stand_ins: the clones that run instead of nodes.
        prefix: the scope of the clones.
        known: names of the graph's own nodes that were converted, or cloned later.
        in_loops: names of converted nodes inside while loops.
        added: names of the nodes that this and earlier conversions added.
        merged: names of the merged summaries that show the loss scale.
        savers: names of nodes of Savers that came late.
        gradients: the values of scaled gradient code.
    """

    stand_ins: StandIns
    prefix: str
    known: FrozenSet[str]
    in_loops: FrozenSet[str]
    added: FrozenSet[str]
    merged: FrozenSet[str]
    savers: FrozenSet[str] = frozenset()
    gradients: GradientValues = GradientValues(StandIns({}))

    def knows(self, name: str) -> bool:
        """Whether a node is neither newer than the conversion nor foreign to it."""
        return name in self.known or name in self.added

    def fetched(self, tensor: Any) -> Any:
        """The tensor to fetch in place of a tensor: it isn't scaled."""
        found = self.gradients.fetched(tensor)
        return self.stand_ins.tensor(tensor) if found is None else found

    def feeding(self, tensors: Sequence[Any], ran: Sequence[Any], runs: Sequence[Any]) -> Feeding:
        """As `GradientValues.feeding`."""
        return self.gradients.feeding(self.stand_ins, tensors, ran, runs)

    def with_clones(self, clones: Clones, view: GraphView, known: AbstractSet[str]) -> LiveNodes:
        """These nodes, and clones of others.

        Args:
            clones: the clones, which the graph already has.
            view: the graph that they were cloned from.
            known: names of the graph's own nodes that the conversion includes from now on.
        """
        return self._replace(
            stand_ins=StandIns({**self.stand_ins.names, **clones.names}),
            prefix=clones.prefix,
            known=self.known | known,
            in_loops=self.in_loops | {name for name, depth in loop_depths(view).items() if depth},
            added=self.added | clones.added,
        )


def unconverted(added: FrozenSet[str] = frozenset()) -> LiveNodes:
    """The nodes of an unconverted graph; earlier conversions may have added nodes."""
    return LiveNodes(StandIns({}), "", frozenset(), frozenset(), added, frozenset())
