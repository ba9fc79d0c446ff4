"""Bytes that the ops of a training step move, by static shapes: the measure of importance.

Ops that only store or pass on values, variables, and their writes are no work that half precision
could do.
"""

from __future__ import annotations

from typing import Dict, Iterator, NamedTuple, Sequence, Tuple

from graphmp.compare import roles
from graphmp.compare.changes import BodyPair
from graphmp.graph.shapes.element_counts import ElementCounts
from graphmp.graph.shapes.trip_counts import trip_counts, trips
from graphmp.graph.state.state import State
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView, Port
from graphmp.naming import in_body
from graphmp.policy.dtypes import FLOAT32, HALF, compute_dtype
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.traits import MOVES_NOTHING

_FLOAT32_BYTES, _HALF_BYTES = 4, 2
_NO_WORK = MOVES_NOTHING | VARIABLE_OPS


class Work(NamedTuple):
    """One op of the converted graph.

    Attributes:
        op: the op type.
        bytes: read and written in a step; 0 without recorded shapes.
        is_half: whether it computes in half precision, rather than in float32.
    """

    op: str
    bytes: int
    is_half: bool


def work(bodies: Sequence[BodyPair], state: State) -> Dict[str, Work]:
    """The float32 and half-precision ops of the training steps by path; of all without training."""
    return {path: found for body in bodies for path, found in _works(body, state)}


def _works(body: BodyPair, state: State) -> Iterator[Tuple[str, Work]]:
    view, in_main = body.after, not body.name
    step = view.ancestors(state.writes) if in_main and state.writes else view.nodes.keys()
    measured = _Bytes(view)
    for name in view.nodes:
        node = view.nodes[name]
        dtype = compute_dtype(node)
        ours = "graphmp" in name and roles.role(name) is not None
        if (
            dtype not in (FLOAT32,) + HALF
            or node.op in _NO_WORK
            or ours
            or (in_main and (name not in step or state.is_write(name)))
        ):
            continue
        size = _FLOAT32_BYTES if dtype == FLOAT32 else _HALF_BYTES
        yield in_body(body.name, name), Work(node.op, size * measured.elements(name), dtype in HALF)


class _Bytes:
    """Elements that a node reads and writes in a step; 0 in a graph without recorded shapes."""

    def __init__(self, view: GraphView):
        self._view = view
        self._inside = frames(view)
        self._counts = trip_counts(view) if self._inside else {}
        self._elements = ElementCounts(view)

    def elements(self, name: str) -> int:
        """Of all its inputs and its first output, for each iteration of loops."""
        ports = [*self._view.inputs(name), Port(name, 0)]
        return trips(self._inside, self._counts, name) * sum(
            self._elements.recorded(port) or 0 for port in ports
        )
