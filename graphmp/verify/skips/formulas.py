"""Flags as formulas over finite values."""

from __future__ import annotations

from typing import FrozenSet, NamedTuple, Tuple, Union

from graphmp.graph.structure.view import Port


class Finite(NamedTuple):
    """True if all of some outputs are finite.

    `scale`: the scale that is adapted by it first; empty without one.
    """

    ports: FrozenSet[Port]
    scale: str


class AllOf(NamedTuple):
    """True if all of some flags are."""

    flags: Tuple[Flag, ...]


class AnyOf(NamedTuple):
    """Holds where one of some flags does."""

    flags: Tuple[Flag, ...]


class Taken(NamedTuple):
    """Holds where a conditional takes a side."""

    side: Tuple[Port, int]


Flag = Union[Finite, AllOf, AnyOf, Taken]


def needs_branch(flag: Flag) -> bool:
    """Whether a flag holds only where the model's conditionals take some branch."""
    if isinstance(flag, (Finite, Taken)):
        return isinstance(flag, Taken)
    each = map(needs_branch, flag.flags)
    return any(each) if isinstance(flag, AllOf) else all(each)


def said_finite(flag: Flag) -> FrozenSet[Port]:
    """The outputs that are finite wherever a flag holds."""
    if isinstance(flag, (Finite, Taken)):
        return flag.ports if isinstance(flag, Finite) else frozenset()
    each = [said_finite(inner) for inner in flag.flags]
    return frozenset().union(*each) if isinstance(flag, AllOf) else frozenset.intersection(*each)


def by_value(flag: Flag) -> FrozenSet[Port]:
    """The outputs that a flag checks directly: no scale is adapted by them."""
    if isinstance(flag, (Finite, Taken)):
        return flag.ports if isinstance(flag, Finite) and not flag.scale else frozenset()
    return frozenset().union(*map(by_value, flag.flags))


def is_mixed(flag: Flag) -> bool:
    """Whether a flag may be true by values alone if a scale's flag isn't, or vice versa."""
    if isinstance(flag, (Finite, Taken)):
        return False
    return any(map(is_mixed, flag.flags)) or (isinstance(flag, AnyOf) and bool(by_value(flag)))


def mentioned(flag: Flag) -> FrozenSet[str]:
    """All scales whose flags a flag consists of."""
    if isinstance(flag, (Finite, Taken)):
        return frozenset((flag.scale,)) if isinstance(flag, Finite) and flag.scale else frozenset()
    return frozenset().union(*map(mentioned, flag.flags))
