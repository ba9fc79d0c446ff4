"""Following a value through ops that pass it on, moved or copied, to the ops that read it."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.values import number
from graphmp.graph.structure.view import Consumer, GraphView, Port
from graphmp.policy.op_sets import ADDS, ARRAY_READS, ARRAY_WRITES

_FIRST, _SECOND, _ALL, _ALL_BUT_FIRST, _ALL_BUT_LAST = (
    slice(0, 1),
    slice(1, 2),
    slice(None),
    slice(1, None),
    slice(0, -1),
)
# Op types that pass a tensor on unchanged: through control flow, or to another name.
_CARRIES = (
    "Cast", "CheckNumerics", "EnsureShape", "Enter", "Exit", "Identity", "IdentityN", "Merge",
    "NextIteration", "PlaceholderWithDefault", "PreventGradient", "RefEnter", "RefIdentity",
    "Snapshot", "StopGradient", "Switch",
)  # fmt: skip
# Op types whose result contains the values of their inputs, and the slots of these.
_MOVES: Dict[str, slice] = {
    "Abs": _FIRST,
    "BroadcastTo": _FIRST,
    "Concat": _ALL_BUT_FIRST,
    "ConcatV2": _ALL_BUT_LAST,
    "DynamicPartition": _FIRST,
    "ExpandDims": _FIRST,
    "Gather": _FIRST,
    "GatherNd": _FIRST,
    "GatherV2": _FIRST,
    "Pack": _ALL,
    "Pad": _FIRST,
    "Reshape": _FIRST,
    "Reverse": _FIRST,
    "ReverseSequence": _FIRST,
    "ReverseV2": _FIRST,
    "Slice": _FIRST,
    "Split": _SECOND,
    "SplitV": _FIRST,
    "Squeeze": _FIRST,
    "StridedSlice": _FIRST,
    "StringLower": _FIRST,
    "StringSplit": _FIRST,
    "StringSplitV2": _FIRST,
    "StringStrip": _FIRST,
    "Substr": _FIRST,
    "Tile": _FIRST,
    "Transpose": _FIRST,
    "Unpack": _FIRST,
}
_MOVES.update((op, _ALL if op in ("IdentityN", "Merge") else _FIRST) for op in _CARRIES)
# Arithmetic that keeps a tensor's shape if its other operand is a scalar.
_SCALES = ADDS | {"Div", "Maximum", "Minimum", "Mul", "RealDiv", "Sub"}


class ValueUse(NamedTuple):
    """Input `slot` of `node`, which reads a value directly or moved.

    Attributes:
        node: the consumer.
        slot: its data input.
        port: the tensor read there.
        offset: the sum of what was added to the value.
    """

    node: tf.NodeDef
    slot: int
    port: Port
    offset: int


_Follow = Callable[[GraphView, Consumer], Iterable[Tuple[Port, int]]]


def uses_of_values(view: GraphView, start: Port) -> List[ValueUse]:
    """All consumers of the values of a tensor, also where they are parts of other tensors.

    The whole graph counts, not only the nodes that run: a run of gradients computes no loss, but
    the loss tells what labels are.
    """
    return _uses(view, start, _moved)


def uses_of_shape(view: GraphView, start: Port) -> List[ValueUse]:
    """All consumers of a tensor and of tensors that certainly have its shape."""
    return _uses(view, start, _same_shape)


def carried_from(view: GraphView, port: Port) -> Port:
    """The origin of a tensor that was only passed on; a Merge has several and is its own origin."""
    while view.nodes[port.node].op in _CARRIES and view.nodes[port.node].op != "Merge":
        port = view.inputs(port.node)[port.output if view.nodes[port.node].op == "IdentityN" else 0]
    return port


def _uses(view: GraphView, start: Port, follow: _Follow) -> List[ValueUse]:
    seen, waiting, found = {start}, [(start, 0)], []
    while waiting:
        port, offset = waiting.pop()
        for consumer in view.consumers(port.node):
            if consumer.output == port.output:
                found.append(ValueUse(view.nodes[consumer.node], consumer.slot, port, offset))
                fresh = [
                    (next_port, offset + added)
                    for next_port, added in follow(view, consumer)
                    if next_port not in seen
                ]
                seen.update(next_port for next_port, _ in fresh)
                waiting.extend(fresh)
    return found


def _moved(view: GraphView, consumer: Consumer) -> List[Tuple[Port, int]]:
    """The tensors that hold the values after this consumer, and what it added to them."""
    op = view.nodes[consumer.node].op
    if _is_moved(view, consumer):
        return [(port, 0) for port in _outputs(view, consumer)]
    if ARRAY_WRITES.get(op) == consumer.slot:
        return [(port, 0) for port in read_from_array(view, consumer.node)]
    if op in ADDS | {"Sub"}:
        number = integer(view, view.inputs(consumer.node)[1 - consumer.slot])
        if number is not None and (op != "Sub" or consumer.slot == 0):
            return [(Port(consumer.node, 0), -number if op == "Sub" else number)]
    return []


def _same_shape(view: GraphView, consumer: Consumer) -> List[Tuple[Port, int]]:
    node = view.nodes[consumer.node]
    if node.op in _CARRIES and _is_moved(view, consumer):
        return [(port, 0) for port in _outputs(view, consumer)]
    if (
        node.op in _SCALES
        and scalar(view, view.inputs(consumer.node)[1 - consumer.slot]) is not None
    ):
        return [(Port(consumer.node, 0), 0)]
    return []


def _is_moved(view: GraphView, consumer: Consumer) -> bool:
    """Whether a consumer's result contains what it reads here: not a predicate, nor a position."""
    slots = range(len(view.inputs(consumer.node)))
    return consumer.slot in slots[_MOVES.get(view.nodes[consumer.node].op, slice(0))]


def scalar(view: GraphView, port: Port) -> Optional[float]:
    """The number in a constant of one element; None for any other tensor."""
    return number(view.nodes[carried_from(view, port).node])


def integer(view: GraphView, port: Port) -> Optional[int]:
    """The integer in a constant of one element; None for any other tensor."""
    found = scalar(view, port)
    return int(found) if found is not None and np.isfinite(found) and found == int(found) else None


def _outputs(view: GraphView, consumer: Consumer) -> List[Port]:
    """The outputs of a node that are read; for an IdentityN only the one of the given input."""
    read = sorted({c.output for c in view.consumers(consumer.node)})
    return [
        Port(consumer.node, output)
        for output in read
        if output == consumer.slot or view.nodes[consumer.node].op != "IdentityN"
    ]


def read_from_array(view: GraphView, writer: str) -> List[Port]:
    """The reads of the TensorArray that a node writes; an Enter passes its handle into loops."""
    waiting, seen = [carried_from(view, view.inputs(writer)[0])], set()
    found = []
    while waiting:
        port = waiting.pop()
        seen.add(port)
        for consumer in view.consumers(port.node):
            if consumer.output != port.output or consumer.slot:
                continue
            if view.nodes[consumer.node].op in ARRAY_READS:
                found.append(Port(consumer.node, 0))
            elif view.nodes[consumer.node].op in _CARRIES:
                waiting += [port for port in _outputs(view, consumer) if port not in seen]
    return found
