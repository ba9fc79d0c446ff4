"""Values that are checked gradients times something, and sums of such values.

What multiplies, divides or bounds a checked gradient is no gradient of its own: the norm of a clip,
a rate, an advantage, fed or computed. A term that is added to one may be.
"""

from __future__ import annotations

from typing import AbstractSet, List, Set

from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import SUMS
from graphmp.policy.traits import DIVIDES, KEEPS_VALUES
from graphmp.verify.sides import Sides

_BY_ANY = frozenset(("Maximum", "Minimum", "Mul", "MulNoNan"))
_BY_FIRST = DIVIDES | {"ClipByValue"}
_BY_ALL = KEEPS_VALUES | SUMS | {"Sub"}


def multiples(sides: Sides, checked: AbstractSet[Port]) -> Set[Port]:
    """Checked outputs of a converted body, and their multiples."""
    view = sides.after.view
    found, waiting = set(checked), list(checked)
    while waiting:
        port = waiting.pop()
        for consumer in view.consumers(port.node):
            name = consumer.node
            made = {Port(name, output) for output in range(sides.after.outputs(name))} - found
            if consumer.output == port.output and made and _is_multiple(sides, name, found):
                found |= made
                waiting += made
    return found


def _is_multiple(sides: Sides, name: str, known: AbstractSet[Port]) -> bool:
    """Whether a node makes multiples of gradients of some."""
    op = sides.after.view.nodes[name].op
    read: List[bool] = [
        port in known for port in sides.after.view.inputs(name) if sides.after.is_float(port)
    ]
    return (
        (op in _BY_ANY and any(read))
        or (op in _BY_FIRST and read[0])
        or (op in _BY_ALL and all(read))
    )
