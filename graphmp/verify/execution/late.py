"""Copies of a variable for what reads it after a write: each must be made after that write.

A read of a reference is the variable's memory, a cast of it a copy (`graph/state/late_reads.py`).
"""

from __future__ import annotations

from typing import Iterator, Optional

from graphmp.graph.state.late_reads import late_reads
from graphmp.verify.sides import Fault, Sides


def late_faults(sides: Sides) -> Iterator[Fault]:
    """Casts that are made before the write that their reader waits for."""
    before, after = sides.before, sides.after
    for (reader, slot), waits in late_reads(before.view, before.state).waits.items():
        copy = _copy(sides, reader, slot)
        missing = set(waits) - after.view.ancestors([copy]) if copy is not None else None
        if missing:
            text = "does not wait for %s, as %s does in the original, which reads what is written"
            yield Fault(str(copy), text % (min(missing), reader))


def _copy(sides: Sides, reader: str, slot: int) -> Optional[str]:
    """The added cast that an input reads; None if it reads the variable's memory."""
    view = sides.after.view
    if reader not in view.nodes or slot >= len(view.inputs(reader)):
        return None
    name = view.inputs(reader)[slot].node
    while name in sides.added and view.nodes[name].op != "Cast" and view.inputs(name):
        name = view.inputs(name)[0].node
    return name if name in sides.added and view.nodes[name].op == "Cast" else None
