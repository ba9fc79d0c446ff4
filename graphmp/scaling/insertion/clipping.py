"""Clipping the gradients of one loss to a global norm, where they are complete."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Tuple

from graphmp.graph.structure.view import Port
from graphmp.loss_scale.gradients import clip
from graphmp.scaling.insertion.places import Places
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph

Entry = Tuple[str, int]


def entries(graph: TrainingGraph, loss: Loss) -> List[Entry]:
    """The gradient inputs of update kernels; empty if some update isn't such a kernel."""
    slots = [(name, graph.slot_named(name, "grad", "delta")) for name in loss.direct]
    return slots if all(slot >= 0 for _, slot in slots) else []


class Clipping:
    """Clipped gradients.

    Attributes:
        results: the clipped value of each gradient that is read by others too.
        at_entries: the clipped values that update kernels take in place of their gradients.
        apart: whether each tower's gradients are clipped separately.
        nowhere: whether gradients are taken in iterations, or in a function, so that the complete
            gradients aren't known outside.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        loss: Loss,
        places: Places,
        norm: float,
        scope: str,
        result: Callable[[Port], Any],
    ):
        """Clip.

        Args:
            graph: the graph.
            loss: the loss.
            places: where its gradients are.
            norm: the largest global norm.
            scope: the loss scale's name scope below `graphmp/`.
            result: gives the unscaled value of a gradient.
        """
        self._graph, self._norm, self._scope, self._result = graph, norm, scope, result
        self.results: Dict[Port, Any] = {}
        self.at_entries: List[Tuple[str, int, Any]] = []
        self.apart = self.nowhere = False
        in_turns = bool(loss.emerging or any(scope.call for scope in loss.scopes))
        in_turns = in_turns or len({places.of(port) for port in loss.gradients}) > 1
        kernels = entries(graph, loss)
        if loss.arrivals and not loss.fetched:
            self._clip(loss.arrivals)
        elif (loss.fetched or loss.reduced or loss.added_up or in_turns) and kernels:
            self._clip_entries(kernels)
        elif in_turns:
            self.nowhere = True
        elif loss.reduced:
            self._clip(loss.checked)
        elif loss.added_up:
            self.apart = True
            for each in loss.scopes:
                self._clip([port for port in loss.gradients if port in each.leaving])
        else:
            self._clip(loss.gradients)

    def _clip(self, ports: Iterable[Port]) -> None:
        self.results.update(self._clipped(ports))

    def _clip_entries(self, kernels: List[Entry]) -> None:
        read = {entry: self._graph.view.inputs(entry[0])[entry[1]] for entry in kernels}
        clipped = self._clipped(read.values())
        self.at_entries = [(name, slot, clipped[port]) for (name, slot), port in read.items()]

    def _clipped(self, ports: Iterable[Port]) -> Dict[Port, Any]:
        ports = list(dict.fromkeys(ports))
        return dict(zip(ports, clip(list(map(self._result, ports)), self._norm, self._scope)))
