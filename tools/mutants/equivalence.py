"""The rules by which a mutant is the same program as the graph that it was made from. What no rule says is not equivalent.

1. The same order. The two differ in control inputs alone, and each that is missing or new is implied by a path on which every node waits
   for the one before it: a node that waits for all of its inputs runs, or is dead, only after they have run, or where one is dead. Merge,
   which runs as soon as one input is there, ends a path unless the edge into it is a control edge; so does NextIteration.
       b waits for x, x reads a, b waits for a  ->  b waits for x, x reads a
2. The same values. Every node of the original, every op with state and every op of control flow does the same with the same values, in
   the same order. Values are numbered: two ops without state have the same number where op, attributes, the numbers of their inputs
   (in any order where the op commutes) and of what they wait for are the same; an Identity that waits for nothing has its input's number.
       Mul(a, b)  ->  Mul(b, a);  a reader of x reads Identity(x);  a node without readers below graphmp/ changes
"""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.control_flow import MERGES, NEXT_ITERATIONS
from graphmp.graph.messages import serialize
from graphmp.graph.view import GraphView
from graphmp.hooks.op_defs import OpDefs
from mutants.subject import Subject

IMPLIED, SAME_VALUES = "the same order", "the same values"
_COMMUTE = frozenset(
    [
        "Add",
        "AddV2",
        "Mul",
        "Maximum",
        "Minimum",
        "LogicalAnd",
        "LogicalOr",
        "Equal",
        "NotEqual",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "SquaredDifference",
    ]
)
_CONTROL_FLOW = frozenset(
    [
        "Switch",
        "Merge",
        "Enter",
        "Exit",
        "NextIteration",
        "LoopCond",
        "RefSwitch",
        "RefMerge",
        "RefEnter",
        "RefExit",
        "RefNextIteration",
        "ControlTrigger",
    ]
)

Edge = Tuple[str, str]


def rule(subject: Subject, mutated: tf.MetaGraphDef) -> str:
    """The rule by which a mutant is equivalent; empty where none says so."""
    if not _same_beside_nodes(subject.converted, mutated):
        return ""
    view = GraphView(mutated.graph_def)
    if _only_order_differs(subject.view, view):
        return "" if lost_order(subject, view) or _new_order(subject, view) else IMPLIED
    return SAME_VALUES if _same_values(subject, view) else ""


def lost_order(subject: Subject, view: GraphView) -> List[Edge]:
    """Control edges of the unmutated graph that a mutant of the same nodes neither has nor implies: (who waited, for whom)."""
    dropped = _edges(subject.view) - _edges(view)
    return sorted((name, other) for name, other in dropped if name in view.nodes and not _implied(view, name, other))


def loses_order_alone(subject: Subject, mutated: tf.MetaGraphDef) -> bool:
    """Whether a mutant differs in nothing but control edges that are missing and not implied."""
    view = GraphView(mutated.graph_def)
    return _only_order_differs(subject.view, view) and not _edges(view) - _edges(subject.view) and bool(lost_order(subject, view))


def _new_order(subject: Subject, view: GraphView) -> List[Edge]:
    return [(name, other) for name, other in _edges(view) - _edges(subject.view) if not _implied(subject.view, name, other)]


def _edges(view: GraphView) -> Set[Edge]:
    return {(name, other) for name in view.nodes for other in view.controls(name)}


def _implied(view: GraphView, name: str, other: str) -> bool:
    """Whether a path of waiting nodes leads from `other` to `name`."""
    seen, waiting = {name}, [name]
    while waiting:
        at = waiting.pop()
        before = set(view.controls(at))
        if view.nodes[at].op not in MERGES | NEXT_ITERATIONS:
            before |= {port.node for port in view.inputs(at)}
        if other in before:
            return True
        waiting.extend(before - seen)
        seen |= before
    return False


def _only_order_differs(before: GraphView, after: GraphView) -> bool:
    if list(before.nodes) != list(after.nodes):
        return False
    return all(_without_order(node) == _without_order(after.nodes[name]) for name, node in before.nodes.items() if node != after.nodes[name])


def _without_order(node: Any) -> bytes:
    copy = tf.NodeDef()
    copy.CopyFrom(node)
    copy.input[:] = [text for text in node.input if not text.startswith("^")]
    return serialize(copy)


def _same_beside_nodes(one: tf.MetaGraphDef, other: tf.MetaGraphDef) -> bool:
    """Whether two graphs differ in the nodes of the main graph alone."""
    return _beside_nodes(one) == _beside_nodes(other)


def _beside_nodes(meta_graph: tf.MetaGraphDef) -> bytes:
    rest = tf.MetaGraphDef()
    rest.CopyFrom(meta_graph)
    del rest.graph_def.node[:]
    return serialize(rest)


def _same_values(subject: Subject, view: GraphView) -> bool:
    numbers = _Numbers(subject.defs)
    before, after = numbers.of(subject.view), numbers.of(view)
    wanted = {name for name in subject.view.nodes if name in subject.before.nodes or numbers.stays(subject.view, name)}
    wanted |= {name for name in view.nodes if numbers.stays(view, name)}
    return all(before.get(name, -1) == after.get(name, -2) for name in wanted)


class _Numbers:
    """Numbers of values, the same ones for several graphs."""

    def __init__(self, defs: OpDefs):
        self._defs = defs
        self._known: Dict[Any, int] = {}

    def stays(self, view: GraphView, name: str) -> bool:
        """Whether a node is more than its values: it has state, a reference, a handle, or is of control flow."""
        node = view.nodes[name]
        definition = self._defs.get(node.op)
        if definition is None or definition.is_stateful or node.op in _CONTROL_FLOW or node.op.startswith("Placeholder"):
            return True
        return any(argument.is_ref or argument.type == tf.resource.as_datatype_enum for argument in definition.input_arg) or self._reads_state(
            view, name
        )

    def _reads_state(self, view: GraphView, name: str) -> bool:
        for port in view.inputs(name):
            signature = self._defs.signature(view.nodes[port.node])
            if signature is None or port.output >= len(signature.outputs) or signature.outputs[port.output].is_ref:
                return True
        return False

    def of(self, view: GraphView) -> Dict[str, int]:
        """The number of each node."""
        found: Dict[str, int] = {}
        for name in _in_order(view):
            found[name] = self._number(view, name, found)
        return found

    def _number(self, view: GraphView, name: str, found: Dict[str, int]) -> int:
        node = view.nodes[name]

        def port_number(port: Any) -> Any:
            return found.get(port.node, port.node), port.output

        inputs = [port_number(port) for port in view.inputs(name)]
        controls = sorted({found.get(other, -1) for other in view.controls(name)})
        if self.stays(view, name):
            return self._intern((name, node.op, _attributes(node), tuple(inputs), tuple(controls)))
        if node.op == "Identity" and not controls and view.inputs(name)[0].output == 0:
            before = view.inputs(name)[0].node
            if before in found:
                return found[before]
        if node.op in _COMMUTE:
            inputs.sort(key=str)
        return self._intern((node.op, _attributes(node), tuple(inputs), tuple(controls)))

    def _intern(self, key: Any) -> int:
        return self._known.setdefault(key, len(self._known))


def _attributes(node: Any) -> Any:
    if node.op == "Const":
        value = np.asarray(tf.make_ndarray(node.attr["value"].tensor))
        return node.attr["dtype"].type, value.shape, value.tobytes() if value.dtype != object else repr(value.tolist())
    return tuple((key, serialize(node.attr[key])) for key in sorted(node.attr) if key != "_output_shapes") + (node.device,)


def _in_order(view: GraphView) -> List[str]:
    """The nodes, each behind what it reads; what a NextIteration brings back doesn't count."""
    order: List[str] = []
    left: Dict[str, int] = {}
    readers: Dict[str, List[str]] = {}
    for name, node in view.nodes.items():
        before = {port.node for port in view.inputs(name)} | set(view.controls(name))
        before = {other for other in before if not (node.op in MERGES and view.nodes[other].op in NEXT_ITERATIONS)}
        left[name] = len(before)
        for other in before:
            readers.setdefault(other, []).append(name)
    waiting = [name for name, count in left.items() if not count]
    while waiting:
        name = waiting.pop()
        order.append(name)
        for reader in readers.get(name, ()):
            left[reader] -= 1
            if not left[reader]:
                waiting.append(reader)
    return order
