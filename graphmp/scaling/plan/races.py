"""Early writes that a late reader of their variable doesn't wait for.

Delayed until the gradients are checked, such a write would come after its reader.
"""

from __future__ import annotations

from typing import AbstractSet, Sequence, Set

from graphmp.once import once
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.steps import Steps


class Races:
    """The writes of a graph that race with readers."""

    def __init__(self, graph: TrainingGraph, steps: Steps, writes: Sequence[str]):
        """`writes` are those of the graph that skips are planned for."""
        self._graph, self._steps, self._writes = graph, steps, writes

    def has(self, name: str) -> bool:
        """Whether a write is early, and a late reader of its variable doesn't wait for it."""
        if self._waits(name, self._behind_gradients) or self._waits(name, self._behind_writes):
            return False
        late = {
            reader
            for variable in self._graph.state.written(name)
            for reader in self._readers(variable)
            if self._waits(reader, self._behind_writes) and self._steps.of(reader)
        }
        late.difference_update(self._writes)
        return bool(late and late - self._graph.view.descendants([name]))

    def _waits(self, name: str, nodes: AbstractSet[str]) -> bool:
        """Whether a node comes directly after one of some nodes."""
        view = self._graph.view
        return any(port.node in nodes for port in view.inputs(name)) or any(
            control in nodes for control in view.controls(name)
        )

    @once
    def _behind_writes(self) -> AbstractSet[str]:
        return self._graph.view.descendants(self._writes)

    @once
    def _behind_gradients(self) -> AbstractSet[str]:
        return self._graph.view.descendants(self._graph.gradients)

    def _readers(self, variable: str) -> Set[str]:
        """Nodes that read a variable; those of a reference's copy, which shares its memory."""
        view = self._graph.view
        found: Set[str] = set()
        for reader in (consumer.node for consumer in view.consumers(variable)):
            if view.nodes[reader].op == "Identity":
                found.update(consumer.node for consumer in view.consumers(reader))
            else:
                found.add(reader)
        return found
