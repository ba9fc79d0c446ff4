"""Casts to a narrower type and back: a conversion that inserts both computes in between."""

from __future__ import annotations

from typing import AbstractSet, Container, Iterator, Set

from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import FLOAT32, FLOAT64, HALF
from graphmp.policy.traits import KEEPS_VALUES
from graphmp.verify.sides import Fault, Sides, attribute
from graphmp.verify.structure.erase import Erasure

_WIDE = (FLOAT32, FLOAT64)


def roundings(sides: Sides, erasure: Erasure) -> Iterator[Fault]:
    """Casts from a narrow type with nothing computed since another cast to it.

    A gradient of a cast doesn't count.
    """
    view = sides.after.view
    widening = [name for name in sorted(sides.added) if sides.is_cast(name, _WIDE)]
    gradients = {"%s_grad/Cast" % name for name in widening}
    for name in widening:
        port = view.inputs(name)[0]
        while port.node in sides.added and not _narrows(sides, port.node):
            inner = erasure.through(port)
            if inner is None:
                break
            port = inner
        if _narrows(sides, port.node) and not _below(port.node, gradients):
            yield Fault(
                name,
                "gives back what %s has rounded, and nothing between them computes in half"
                " precision" % port.node,
            )
    code = gradient_nodes(sides.before.view)
    for name in sorted(sides.added):
        if _narrows(sides, name) and _is_only_moved(sides, name, code):
            yield Fault(name, "rounds what is only moved until it is given back")


def _narrows(sides: Sides, name: str) -> bool:
    """Whether a node is an added cast to half precision, or from float64 to float32."""
    source = attribute(sides.after.view.nodes[name], "SrcT").type
    return sides.is_cast(name, HALF) or (source == FLOAT64 and sides.is_cast(name, (FLOAT32,)))


def _is_only_moved(sides: Sides, name: str, code: AbstractSet[str]) -> bool:
    """Whether nodes of the original move a cast's value, and nothing but casts back read it.

    Not in gradient code, `code`, whose types are those of the nodes that it differentiates.
    """
    view = sides.after.view
    moved: Set[str] = view.followed([name], lambda other: other == name or _moves(sides, other))
    ends = {consumer.node for each in moved for consumer in view.consumers(each)} - moved
    return (
        len(moved) > 1
        and not moved & code
        and bool(ends)
        and all(sides.is_cast(end, _WIDE) for end in ends)
    )


def _moves(sides: Sides, name: str) -> bool:
    node = sides.after.view.nodes[name]
    return (
        name not in sides.added
        and node.op in KEEPS_VALUES
        and (sides.after.dtype(Port(name, 0)) in HALF)
    )


def _below(name: str, names: Container[str]) -> bool:
    """Whether a node has one of some names in a scope."""
    parts = name.split("/")
    return any("/".join(parts[start:]) in names for start in range(len(parts)))
