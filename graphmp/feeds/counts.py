"""Values that are counted: those of masks, ids beside padding, numbers of segments."""

from __future__ import annotations

from typing import Sequence, Tuple

from graphmp.feeds.shapes import Shapes
from graphmp.feeds.uses import ValueUse, integer, uses_of_shape
from graphmp.graph.structure.view import Port

_COMPARED = frozenset(("Equal", "Greater", "NotEqual"))
_SEGMENTS = frozenset(
    [("Segment" + word, 1) for word in ("Max", "Mean", "Min", "Prod", "Sum")]
    + [
        ("SparseSegment%s%s" % (word, ending), 2)
        for word in ("Mean", "SqrtN", "Sum")
        for ending in ("", "WithNumSegments")
    ]
)  # op types and the inputs that number segments, in ascending order


def numbers_segments(use: ValueUse) -> bool:
    """Whether the values are the numbers of segments, which must not fall."""
    return (use.node.op, use.slot) in _SEGMENTS


def are_added_up(shapes: Shapes, uses: Sequence[ValueUse]) -> bool:
    """Whether values are added up to an integer, as those of a mask to lengths of sequences."""
    totals = [Port(use.node.name, 0) for use in uses if (use.node.op, use.slot) == ("Sum", 0)]
    return any(
        shapes.holds_integers(total)
        or any(
            use.node.op == "Cast" and shapes.holds_integers(Port(use.node.name, 0))
            for use in uses_of_shape(shapes.view, total)
        )
        for total in totals
    )


def paddings(shapes: Shapes, uses: Sequence[ValueUse]) -> Tuple[int, ...]:
    """The constants that values are compared with, such as the id that fills up short sequences."""
    found = [0 for use in uses if use.node.op == "Sign" and not use.offset]
    for use in uses:
        if use.node.op in _COMPARED and shapes.holds_integers(use.port):
            number = integer(shapes.view, shapes.view.inputs(use.node.name)[1 - use.slot])
            found += [] if number is None else [number - use.offset]
    return tuple(sorted(set(found)))
