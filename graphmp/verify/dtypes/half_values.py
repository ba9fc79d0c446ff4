"""Values that half precision has no room for, whatever the policy.

1. Whole numbers: no cast from integers of more than 8 bits, no cast to integers.
2. Random numbers: an op draws others in another type.
3. Constants: none becomes 0 or infinite.
"""

from __future__ import annotations

from typing import Iterator, Optional

import numpy as np

from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.values import compact
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import BOOL, FLOATS, HALF
from graphmp.policy.traits import EXACT_INTEGERS
from graphmp.verify.sides import Fault, Sides, attribute
from graphmp.verify.structure.attributes import fits

_VALUES = {
    **dict.fromkeys(
        ("BroadcastTo", "ExpandDims", "Identity", "Neg", "Reshape", "Squeeze", "Tile"), 0
    ),
    "Fill": 1,
}  # ops all of whose values are those of an input, with its slot


def half_value_faults(sides: Sides) -> Iterator[Fault]:
    """Such values in one body."""
    for name in sides.became_half:
        node = sides.after.view.nodes[name]
        if name in sides.added:
            if sides.is_cast(name, HALF) and not _is_held(sides, name):
                yield Fault(name, "rounds a constant to half precision that becomes 0 or infinite")
        elif node.op == "Cast" and _is_of_integers(sides, name):
            yield Fault(name, "casts whole numbers to or from half precision")
        elif kind(node.op) == "random" or node.op.startswith("StatelessRandom"):
            yield Fault(name, "draws other random numbers, in half precision")


def _is_of_integers(sides: Sides, name: str) -> bool:
    node = sides.after.view.nodes[name]
    source, target = (attribute(node, key).type for key in ("SrcT", "DstT"))
    return source not in (*FLOATS, *EXACT_INTEGERS) or target not in (*FLOATS, BOOL)


def _is_held(sides: Sides, name: str) -> bool:
    """Whether a cast to half precision holds a constant; true for anything else."""
    view = sides.after.view
    port: Optional[Port] = view.inputs(name)[0]
    while port is not None and view.nodes[port.node].op != "Const":
        slot = 0 if sides.is_cast(port.node) else _VALUES.get(view.nodes[port.node].op)
        port = None if slot is None or port.output else view.inputs(port.node)[slot]
    if port is None:
        return True
    value = compact(attribute(view.nodes[port.node], "value").tensor).astype(np.float64)
    return fits(value, attribute(view.nodes[name], "DstT").type)
