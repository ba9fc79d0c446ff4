"""Casts to half precision and back: a conversion that inserts both computes in between."""

from __future__ import annotations

from typing import Container, Iterator

from graphmp.policy.dtypes import FLOAT32, HALF
from graphmp.verify.erase import Erasure
from graphmp.verify.sides import Fault, Sides


def roundings(sides: Sides, erasure: Erasure) -> Iterator[Fault]:
    """Casts from half precision with nothing computed since another cast to it.

    A gradient of a cast doesn't count.
    """
    view = sides.after.view
    widening = [name for name in sorted(sides.added) if sides.is_cast(name, [FLOAT32])]
    gradients = {"%s_grad/Cast" % name for name in widening}
    for name in widening:
        port = view.inputs(name)[0]
        while port.node in sides.added and not sides.is_cast(port.node, HALF):
            inner = erasure.through(port)
            if inner is None:
                break
            port = inner
        if sides.is_cast(port.node, HALF) and not _below(port.node, gradients):
            yield Fault(
                name,
                "gives back what %s has rounded, and nothing between them computes in half"
                " precision" % port.node,
            )


def _below(name: str, names: Container[str]) -> bool:
    """Whether a node has one of some names in a scope."""
    parts = name.split("/")
    return any("/".join(parts[start:]) in names for start in range(len(parts)))
