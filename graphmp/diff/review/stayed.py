"""Which ops of a training step compute in float32, those that cost most first: matmuls and convolutions, then by the bytes they move.

What only holds or hands on values, variables, and what writes them are no work that half precision would take over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, AbstractSet, Dict, Iterator, List, NamedTuple, Tuple

from graphmp.diff import roles
from graphmp.diff.changes import Body, in_body
from graphmp.diff.patterns import common, stem
from graphmp.graph.control_flow import ENTERS
from graphmp.graph.dtypes import FLOAT32, HALF, compute_dtype
from graphmp.graph.frames import frames
from graphmp.graph.shapes import recorded_elements, recorded_shape
from graphmp.graph.state import State
from graphmp.graph.trip_counts import trip_counts, trips
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.graph.view import GraphView, Port
from graphmp.policy.policy import tensor_core_ops
from graphmp.policy.traits import MOVES_NOTHING

if TYPE_CHECKING:
    from graphmp.diff.model import Diff

_FLOAT32_BYTES, _HALF_BYTES = 4, 2
_NO_WORK = MOVES_NOTHING | VARIABLE_OPS | {"Const", "_Arg", "_Retval"}


class Op(NamedTuple):
    """Ops of one type that stayed float32 for one reason; matmuls and convolutions also by name.

    Attributes:
        text: their path, `*` where it differs; that of the first where names have nothing in common.
        op: the op type.
        nodes: their paths, sorted.
        bytes: what they read and write in a step, by static shapes; 0 where the graph records none.
        is_matmul: whether it is a matmul, a convolution or an RNN kernel.
        kind: the kind of the reason; empty where no report gives one.
        reason: why, in the words of the report.
    """

    text: str
    op: str
    nodes: Tuple[str, ...]
    bytes: int
    is_matmul: bool
    kind: str
    reason: str


class Stayed(NamedTuple):
    """What stayed float32.

    Attributes:
        ops: the ops, the most important first.
        bytes: what the float ops of a step read and write in all, those in half precision included.
    """

    ops: Tuple[Op, ...] = ()
    bytes: int = 0

    @property
    def float32_bytes(self) -> int:
        """What the ops in float32 read and write."""
        return sum(op.bytes for op in self.ops)


class _Node(NamedTuple):
    path: str
    op: str
    bytes: int
    is_half: bool


def stayed_float32(diff: Diff, state: State) -> Stayed:
    """The ops of the training steps; of the whole graph, where nothing trains."""
    reasons = {in_body(kept.body, kept.node): (kept.kind, kept.reason) for kept in diff.kept}
    nodes = [node for body in diff.bodies for node in _nodes(body, state)]
    worth = frozenset(tensor_core_ops())
    groups: Dict[Tuple[str, ...], List[_Node]] = {}
    for node in nodes:
        if not node.is_half:
            kind, reason = reasons.get(node.path, ("", ""))
            groups.setdefault((node.op, kind, stem(reason), stem(node.path) if node.op in worth else ""), []).append(node)
    ops = [_op(group, worth, reasons) for group in groups.values()]
    ops.sort(key=lambda op: (not op.is_matmul, -op.bytes, -len(op.nodes), op.text))
    return Stayed(tuple(ops), sum(node.bytes for node in nodes))


def _op(group: List[_Node], worth: AbstractSet[str], reasons: Dict[str, Tuple[str, str]]) -> Op:
    paths = sorted(node.path for node in group)
    first = min(group, key=lambda node: (-node.bytes, node.path)).path
    text = common(paths) if len({stem(path) for path in paths}) == 1 else first
    op = group[0].op
    return Op(text, op, tuple(paths), sum(node.bytes for node in group), op in worth, *reasons.get(first, ("", "")))


def _nodes(body: Body, state: State) -> Iterator[_Node]:
    """The float32 and half-precision ops of a body that do work."""
    view, in_main = body.after, not body.name
    step = view.ancestors(state.writes) if in_main and state.writes else view.nodes.keys()
    measured = _Bytes(view)
    for name in view.nodes:
        node = view.nodes[name]
        dtype = compute_dtype(node)
        ours = roles.role(name) is not None
        if dtype not in (FLOAT32,) + HALF or node.op in _NO_WORK or ours or (in_main and (name not in step or state.is_write(name))):
            continue
        size = _FLOAT32_BYTES if dtype == FLOAT32 else _HALF_BYTES
        yield _Node(in_body(body.name, name), node.op, size * measured.elements(name), dtype in HALF)


class _Bytes:
    """Elements that a node reads and writes in a step; 0 in a graph that records no shapes."""

    def __init__(self, view: GraphView):
        self._view = view
        self._inside = frames(view)
        self._counts = trip_counts(view) if self._inside else {}
        self._known: Dict[Port, int] = {}

    def elements(self, name: str) -> int:
        """Of all its inputs and its first output, as often as loops go round."""
        ports = [*self._view.inputs(name), Port(name, 0)]
        return trips(self._inside, self._counts, name) * sum(map(self._of, ports))

    def _of(self, port: Port) -> int:
        if port not in self._known:
            node = self._view.nodes[port.node]
            inputs = self._view.inputs(port.node)
            if node.op == "Const" or not isinstance(port.output, int) or recorded_shape(node, port.output) is not None:
                self._known[port] = recorded_elements(node, port.output) if isinstance(port.output, int) else 0
            else:  # inserted casts record no shape
                self._known[port] = self._of(inputs[0]) if inputs and node.op in ENTERS | {"Cast"} else 0
        return self._known[port]
