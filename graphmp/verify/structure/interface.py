"""The interface of a function of the converted graph.

Added arguments, and the meaning of results.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, FrozenSet, List, Sequence, Set

from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.policy.op_sets import RESULT
from graphmp.verify.scales.handles import DynamicState, is_argument
from graphmp.verify.skips.formulas import Flag, said_finite


class Interface:
    """One function, as seen by its calls.

    Attributes:
        name: its name.
        arguments: the names of all of its arguments.
        more: those that the original doesn't have, by index.
        results: the number of its results.
    """

    def __init__(self, name: str, body: Any):
        """`body`: its body, from body.py."""
        self._body, self.name = body, name
        sides = body.sides
        self.arguments: Sequence[str] = sides.after.arguments
        self.more: Dict[int, str] = {
            place: each for place, each in enumerate(self.arguments) if each in sides.more_arguments
        }
        self._results = [name for name, node in sides.after.view.nodes.items() if node.op == RESULT]
        self._known = sum(name in sides.before.view.nodes for name in self._results)
        self.results = len(self._results)

    def dtype(self, argument: str) -> int:
        """The type of an argument."""
        return int(self._body.sides.after.dtype(Port(argument, 0)))

    @once
    def flags(self) -> Dict[int, Flag]:
        """The additional results that are flags."""
        found = {
            place: self._body.flags.of_result(self._returned(place))
            for place in range(self._known, self.results)
        }
        return {place: flag for place, flag in found.items() if flag is not None}

    @once
    def gradients(self) -> Dict[int, FrozenSet[str]]:
        """The results that depend on divisions by loss scales, with these."""
        found: Dict[int, Set[str]] = {}
        for scale in frozenset().union(*self._body.sources.values()):
            for place in self.reached(
                [port for port, scales in self._body.sources.items() if scale in scales]
            ):
                found.setdefault(place, set()).add(scale)
        return {place: frozenset(scales) for place, scales in sorted(found.items())}

    def reached(self, starts: Sequence[Port]) -> Set[int]:
        """The results that depend on some outputs of the body."""
        return self._places(self._body.ways.reached(starts, frozenset()))

    def _places(self, nodes: AbstractSet[str]) -> Set[int]:
        """The indices of original results that are some nodes."""
        return {place for place, name in enumerate(self._results[: self._known]) if name in nodes}

    def unchecked(self, flag: int, given: AbstractSet[int]) -> Set[int]:
        """The results that gradients reach past all that a flag checks.

        The gradients are its own, and those in some of its arguments.
        """
        starts = [*self._body.sources, *(Port(self.arguments[place], 0) for place in given)]
        return self._places(self._body.ways.past(starts, said_finite(self.flags[flag])))

    def unsaid(self) -> Set[int]:
        """The results that depend on a division by a given scale, without a check by its flags."""
        given = {place for place, scales in self.gradients.items() if any(map(is_argument, scales))}
        for flag in self.flags:
            given &= self.unchecked(flag, frozenset())
        return given

    def hands_on(self, place: int) -> bool:
        """Whether a result is the argument of the same index, or a flag that requires it."""
        argument = Port(self.arguments[place], 0)
        if place in self.flags:
            return argument in said_finite(self.flags[place])
        return bool(self._returned(place) == argument)

    def _returned(self, place: int) -> Port:
        port: Port = self._body.plain(self._body.sides.after.view.inputs(self._results[place])[0])
        return port

    @property
    def states(self) -> List[DynamicState]:
        """The state of the scales by which it skips steps."""
        return list(self._body.scales.states)
