"""Flags as formulas over values that are finite."""

from __future__ import annotations

from typing import Dict, FrozenSet, NamedTuple, Optional, Tuple, Union

from graphmp.graph.view import Port
from graphmp.verify.matcher import Matcher
from graphmp.verify.scales import Scales
from graphmp.verify.sides import Sides


class Finite(NamedTuple):
    """Holds where all of some outputs are finite. `scale`: which scale adapts to it first; empty where none does."""

    ports: FrozenSet[Port]
    scale: str


class AllOf(NamedTuple):
    """Holds where all of some flags do."""

    flags: Tuple[Flag, ...]


class AnyOf(NamedTuple):
    """Holds where one of some flags does."""

    flags: Tuple[Flag, ...]


Flag = Union[Finite, AllOf, AnyOf]


class Flags:
    """Reads flags off a converted graph."""

    def __init__(self, sides: Sides, matcher: Matcher, scales: Scales):
        self._sides, self._matcher, self._scales = sides, matcher, scales
        self._known: Dict[Port, Optional[Flag]] = {}

    def of(self, port: Port, value: Optional[Port] = None, writer: str = "") -> Optional[Flag]:
        """What a predicate says; None where it is no flag.

        Args:
            port: the predicate.
            value: what may be looked at element by element.
            writer: the node that goes by it; it may wait itself for the scale to be adapted.
        """
        port = self._matcher.plain(port)
        for scale in self._scales.dynamic if writer else ():
            if port == scale.finite and scale.adapted.intersection(self._sides.after.view.controls(writer)):
                return Finite(scale.checked, scale.name)
        if value is not None:
            found = self._matcher.take("finite_element", port, {"x": value})
            if found is not None:
                return Finite(frozenset((value,)), "")
        if port not in self._known:
            self._known[port] = self._read(port)
        return self._known[port]

    def _read(self, port: Port) -> Optional[Flag]:
        for scale in self._scales.dynamic:
            if port in scale.flags:
                return Finite(scale.checked, scale.name)
        for template, kind in (("both", AllOf), ("either", AnyOf)):
            found = self._matcher.take(template, port)
            if found is not None:
                sides = (self.of(found["a"]), self.of(found["b"]))
                return None if None in sides else kind(sides)  # type: ignore[arg-type]
        every = self._matcher.take("all_finite", port)
        if every is not None:
            flags = [self.of(each) for each in every["flags"]]
            return None if None in flags else AllOf(tuple(flags))  # type: ignore[arg-type]
        checked = self._scales.checked(port)
        if checked is not None:
            return Finite(checked, "")
        inside = self._matcher.take("in_branch", port)
        return None if inside is None else self.of(inside["predicate"])


def said_finite(flag: Flag) -> FrozenSet[Port]:
    """The outputs that are finite wherever a flag holds."""
    if isinstance(flag, Finite):
        return flag.ports
    each = [said_finite(inner) for inner in flag.flags]
    return frozenset().union(*each) if isinstance(flag, AllOf) else frozenset.intersection(*each)


def by_value(flag: Flag) -> FrozenSet[Port]:
    """The outputs that a flag looks at for their own sake: no scale adapts to them."""
    if isinstance(flag, Finite):
        return frozenset() if flag.scale else flag.ports
    return frozenset().union(*map(by_value, flag.flags))


def is_mixed(flag: Flag) -> bool:
    """Whether a flag may hold by values alone where a scale's flag doesn't, or the other way round."""
    if isinstance(flag, Finite):
        return False
    return any(map(is_mixed, flag.flags)) or (isinstance(flag, AnyOf) and bool(by_value(flag)))


def mentioned(flag: Flag) -> FrozenSet[str]:
    """All scales whose flags a flag is made of."""
    if isinstance(flag, Finite):
        return frozenset((flag.scale,)) if flag.scale else frozenset()
    return frozenset().union(*map(mentioned, flag.flags))
