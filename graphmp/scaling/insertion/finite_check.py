"""The finite check of one loss: whether all its gradients are finite, in branches and loops too."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Mapping, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.structure.view import Port
from graphmp.loss_scale.gradients import all_finite, all_finite_by_sums
from graphmp.policy.dtypes import BOOL
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.places import OUTSIDE, Place, Places
from graphmp.scaling.insertion.threads import flag_output
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph


def outside_of_loops(graph: TrainingGraph, loss: Loss) -> List[Port]:
    """The values to check; for those computed in loops, the outputs of the loops."""
    return list(
        loss.arrivals
        or [
            *(port for port in loss.checked if not graph.looped(port.node)),
            *loss.emerging,
        ]
    )


class FiniteCheck:
    """Makes the flag of one loss."""

    def __init__(
        self,
        graph: TrainingGraph,
        part: Fragment,
        loss: Loss,
        places: Places,
        flags: Mapping[str, Port],
        scope: str,
        device: str,
    ):
        """A check that isn't made yet.

        Args:
            graph: the graph.
            part: the nodes to insert.
            loss: the loss.
            places: where its gradients are.
            flags: stand-ins for the flags of calls of gradient-taking functions; other calls will
                get theirs as a result.
            scope: the loss scale's name scope below `graphmp/`.
            device: of the loss scale.
        """
        self._graph, self._part, self._loss, self._places = graph, part, loss, places
        self._flags, self._scope, self._device = flags, scope, device

    def flag(self, result: Callable[[Port], Any]) -> Any:
        """Whether all values are finite; those in a loop or branch are checked there.

        `result` gives the value to check in place of a gradient.
        """
        looped = (
            ()
            if self._loss.arrivals
            else (port for port in self._loss.checked if self._graph.looped(port.node))
        )
        places: Dict[Place, List[Port]] = {}
        for port in [*outside_of_loops(self._graph, self._loss), *looped]:
            places.setdefault(self._places.of(port), []).append(port)
        found = []
        always = places.pop(OUTSIDE, ())
        if always:
            known = self._graph.sizes_of_gradients(self._loss.direct)
            sizes = [known.get(port) for port in always]
            tensors = list(map(result, always))
            found.append(all_finite_by_sums(tensors, self._scope, self._device, sizes))
        flags = [
            self._places.seen(
                place, functools.partial(self._finite_at, place, ports, result), self._device
            )
            for place, ports in places.items()
        ]
        flags += [self._returned(scope.call) for scope in self._loss.scopes if scope.call]
        if not flags:
            return found[0]
        with own_scope(self._scope), tf.device(self._device):
            return tf.reduce_all(tf.stack(found + flags), name="all_finite")

    def _finite_at(self, place: Place, ports: Sequence[Port], result: Callable[[Port], Any]) -> Any:
        inside, device = ("/in_loop", "") if place.loops else ("/in_branch", self._device)
        return all_finite(list(map(result, ports)), self._scope + inside, device)

    def _returned(self, call: str) -> Any:
        """The future flag of a call of a gradient-taking function."""
        port = self._flags.get(call) or Port(
            call, flag_output(self._graph.view.nodes[call], len(self._graph.outputs(call)))
        )
        place = self._places.of(Port(call, 0))
        return self._places.seen(place, lambda: self._part.input(port, BOOL), self._device)
