"""The loops, and the sides of conditionals, in which a loss's gradients are taken."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.structure.branches import Conditions
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import BOOL
from graphmp.scaling.insertion.carried import Branch, Frame, alive, carried, entered, taken
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph


class Place(NamedTuple):
    """A path of loops, and the sides of conditionals that a value there requires."""

    loops: Tuple[str, ...]
    sides: Conditions


OUTSIDE = Place((), frozenset())


class Places:
    """The places of one loss, and flags as seen from outside of them.

    Attributes:
        updated: the sides of conditionals that all updates require.
        always: those that some gradient requires too: nothing is checked on the other sides.
    """

    def __init__(self, graph: TrainingGraph, part: Fragment, loss: Loss, scope: str):
        """`scope` is the loss scale's name scope below `graphmp/`."""
        self._graph, self._part, self._scope = graph, part, scope
        self.updated: Conditions = frozenset.intersection(
            *(graph.conditions.get(name, frozenset()) for name in loss.direct)
        )
        ports = [
            *loss.arrivals,
            *loss.checked,
            *(Port(each.call, 0) for each in loss.scopes if each.call),
        ]
        paths = ((port, graph.loops(port.node)[:1]) for port in ports)
        sides = (graph.sides_of_loop(path) if path else graph.sides(port) for port, path in paths)
        self.always: Conditions = frozenset().union(*sides) & self.updated

    def of(self, port: Port) -> Place:
        """The place of an output, without sides of conditionals that the whole step requires."""
        loops, sides = self._graph.loops(port.node), self._graph.sides(port)
        return Place(loops, sides if loops else sides - self.always)

    def seen(self, place: Place, flag: Callable[[], Any], device: str) -> Any:
        """A flag made in a place, as seen outside of its loops and branches, on a device."""
        branches = self._branches(place.sides, place.loops)
        if place.loops:
            return carried(self.frames(place.loops), lambda: alive(flag(), branches), self._scope)
        found = flag()
        with own_scope(self._scope + "/in_branch"), tf.device(device):
            return alive(found, branches)

    def seen_by_all(self, flag: Any) -> Any:
        """A flag of the step, true also where the conditionals that it requires aren't taken."""
        return alive(flag, self._branches(self.always, ()))

    def trained(self, flag: Any) -> Any:
        """A flag of the step, false where a conditional doesn't take the branch of its updates."""
        flag = taken(flag, self._branches(self.updated - self.always, ()))
        return alive(flag, self._branches(self.updated, ()), elsewhere=False)

    def frames(self, loops: Tuple[str, ...]) -> List[Frame]:
        """The loops of a path, as inputs of the inserted part."""
        found = []
        for depth, name in enumerate(loops):
            path = loops[: depth + 1]
            sides = self._graph.sides_of_loop(path)
            condition = self._part.input(Port(self._graph.loop_conditions[path], 0), BOOL)
            found.append(
                Frame(
                    name,
                    self._graph.parallel_iterations[name],
                    condition,
                    self._branches(sides if depth else sides - self.always, path[:-1]),
                )
            )
        return found

    def _branches(self, sides: Conditions, loops: Tuple[str, ...]) -> List[Branch]:
        """Sides of conditionals, innermost first, as inputs of the inserted part.

        For values inside loops.
        """
        around = {side: self._graph.sides(side[0]) for side in sides}
        found: Dict[Tuple[Port, int], Branch] = {}
        for side in sorted(sides, key=lambda side: (len(around[side]), side)):
            apart = tuple(
                branch
                for other, branch in reversed(list(found.items()))
                if other not in around[side]
            )
            predicate = self._part.input(side[0], BOOL)
            inner = self.frames(loops)[len(self._graph.loops(side[0].node)) :]
            found[side] = Branch(
                entered(inner, predicate, self._scope) if inner else predicate, side[1], apart
            )
        return list(reversed(list(found.values())))
