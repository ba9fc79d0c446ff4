"""Flags as formulas over values that are finite."""

from __future__ import annotations

from typing import FrozenSet, NamedTuple, Tuple, Union

from graphmp.graph.structure.view import Port


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
