"""The rules by which a mutant is the same program as the unmutated graph.

A mutant to which no rule applies is not equivalent.

1. Same order. The graphs differ in control inputs only, and each missing or new one is implied by a
   path on which every node waits for the one before it. A node that waits for all of its inputs
   runs, or is dead, only after they have run, or if one is dead. NextIteration ends a path unless
   the edge into it is a control edge. So does Merge, which runs as soon as one input is there,
   unless all its inputs wait for the same; where a loop begins it always does.
       b waits for x, x reads a, b waits for a  ->  b waits for x, x reads a
   A node without state that the conversion added, other than a group, may run sooner if all nodes
   that read it or wait for it wait for the same, and at any time, or never, if there are none: no
   node can observe the difference.
       y reads x, both wait for a  ->  y reads x and waits for a
   Nor can one if the node waited for another without state only to be dead in a branch that isn't
   taken: if every op with effects, and every node of the original, requires the same branches by
   other inputs, and those behind it still wait for the same ops with effects.
       z waits for x and y, both of which wait for a in a branch  ->  only y waits for a
2. Same values. Every node of the original, every op with state and every op of control flow does
   the same with the same values, in the same order. Values are numbered: two ops without state have
   the same number if their ops, attributes, the numbers of their inputs (in any order if the op
   commutes) and what they wait for are the same. To wait for an op without state is to wait for
   its inputs and for what it waits for: its value isn't seen. Of numbers, Add and AddV2 are one
   op. Furthermore
   a. an Identity has its input's number, that of an output of a node, if the input waits for all
      that the Identity waits for: by 1 it then runs, or is dead, with its input.
       a reader of x reads Identity(x)
       a reader of Identity(x) that waits for what x waits for reads x
   b. All, Any, Max, Min and Sum of a list of scalars have the same number for any order of the
      list. The first four choose; for Sum TensorFlow promises no order: its kernels add in packets
      and shards that differ between machines.
       All(Pack(a, b))  ->  All(Pack(b, a)), in a function's body if the conversion added the list
      So has AddN, whatever the order of its inputs: its definition says that it is commutative and
      an aggregate, by which TensorFlow's own optimizer regroups it.
       AddN(a, b, c)  ->  AddN(a, c, b), also in a function's body
   c. a value computed in half precision has the same number in float32, which holds it exactly, and
      when cast back to that type. So an op that only moves values, or replaces them by zeros, gives
      the same in both types. In float16, all numbers of which are normal in float32, so do
      comparisons and changes of sign; a bfloat16 number may be flushed to zero as subnormal.
       Relu in float16 of x  ->  a cast to float16 of Relu in float32 of a cast of x
   d. a write of a scalar has the same number whether it validates the shape or not: that of a
      variable of the scale, for one.
       AssignVariableOp(v, x, validate_shape=true)  ->  AssignVariableOp(v, x, validate_shape=false)
   The remaining nodes are below graphmp/ and have no readers; these may change.
3. Unobserved. By 2, the graphs differ in values of nodes of the original that only such nodes
   read, that no collection or signature names, and that are multiplied by a loss scale in
   the unmutated graph. No behaviour of the graph depends on them, and a fetch of one by its name
   gives another number than in the original from the unmutated graph too.
       the gradient with respect to a constant, which is unused, starts from a seed that is not
       scaled
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.branches import conditions
from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import FLOAT16, FLOAT32, HALF, INVALID
from graphmp.policy.op_sets import MERGES, NEXT_ITERATIONS, SWITCHES, VARIABLE_OPS
from mutants.subject import Subject

IMPLIED, SAME_VALUES, UNSEEN = "the same order", "the same values", "where nobody looks"
COMMUTE = frozenset(
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

_IN_ANY_ORDER = frozenset(("All", "Any", "Max", "Min", "Sum"))
_LISTS = {"Pack": 0, "ConcatV2": 1}  # ops that make lists, and the rank of what they list
_MOVE = frozenset(
    (
        "BroadcastTo",
        "ConcatV2",
        "ExpandDims",
        "GatherV2",
        "Identity",
        "Pack",
        "Pad",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "StridedSlice",
        "Tile",
        "Transpose",
        "Unpack",
        "ZerosLike",
    )
)
_COMPARE = frozenset(("Abs", "Maximum", "Minimum", "Neg", "Relu", "ReluGrad", "Select", "SelectV2"))

_NOTHING: FrozenSet[int] = frozenset()
_ONE_OP = {"AddV2": "Add"}
_UNKNOWN = frozenset((-1,))  # a node of a loop that is numbered later

Edge = Tuple[str, str]


def rule(subject: Subject, mutated: tf.MetaGraphDef) -> str:
    """The rule by which a mutant is equivalent; empty if none applies."""
    if not _same_beside_nodes(subject.converted, mutated):
        return ""
    view = GraphView(mutated.graph_def)
    if _edges(view) != _edges(subject.view) and _only_order_differs(subject.view, view):
        return "" if lost_order(subject, view) or _new_order(subject, view) else IMPLIED
    different = _different(subject, view)
    return SAME_VALUES if not different else UNSEEN if _unseen(subject, view, different) else ""


def lost_order(subject: Subject, view: GraphView) -> List[Edge]:
    """Control edges of the unmutated graph that a mutant of the same nodes neither has nor implies.

    Each is (waiting node, awaited node).
    """
    dropped = [
        (name, other) for name, other in _edges(subject.view) - _edges(view) if name in view.nodes
    ]
    return sorted(
        (name, other)
        for name, other in dropped
        if not _implied(view, name, other)
        and not _is_read_later(subject, view, name, other)
        and not _others_are_dead(subject, view, name, other)
    )


def _others_are_dead(subject: Subject, view: GraphView, name: str, other: str) -> bool:
    """Whether two added nodes are stateless, and what follows needs no wait between them."""
    numbers, before = _Numbers(subject), subject.before.nodes

    def acts(each: str) -> bool:
        return view.nodes[each].op not in _CONTROL_FLOW and numbers.stays(view, each)

    if name in before or other in before or any(numbers.stays(view, n) for n in (name, other)):
        return False
    follows = {n for n in view.descendants([name]) if n in before or acts(n)}
    was, requires = conditions(subject.view), conditions(view)
    if any(was.get(n) != requires.get(n) for n in follows):
        return False
    awaited = [n for n in view.ancestors([other]) if acts(n)]
    return all(follows & _behind(subject.view, n) <= _behind(view, n) for n in awaited)


def _is_read_later(subject: Subject, view: GraphView, name: str, other: str) -> bool:
    """Whether an added node is stateless, and all its successors, if any, wait for another one."""
    readers = {consumer.node for consumer in view.consumers(name)}.union(
        view.control_consumers(name)
    )
    if (
        name in subject.before.nodes
        or view.nodes[name].op == "NoOp"
        or _Numbers(subject).stays(view, name)
    ):
        return False
    return all(
        view.nodes[reader].op not in MERGES and _implied(view, reader, other) for reader in readers
    )


def loses_order_alone(subject: Subject, mutated: tf.MetaGraphDef) -> bool:
    """Whether a mutant differs only in control edges that are missing and not implied."""
    view = GraphView(mutated.graph_def)
    return (
        _only_order_differs(subject.view, view)
        and not _edges(view) - _edges(subject.view)
        and bool(lost_order(subject, view))
    )


def _new_order(subject: Subject, view: GraphView) -> List[Edge]:
    return [
        (name, other)
        for name, other in _edges(view) - _edges(subject.view)
        if not _implied(subject.view, name, other) and not _is_unread(subject, view, name, other)
    ]


def _is_unread(subject: Subject, view: GraphView, name: str, other: str) -> bool:
    """Whether an added node is stateless and without successors."""
    has_successors = view.consumers(name) or view.control_consumers(name)
    return not has_successors and _is_read_later(subject, view, name, other)


def _edges(view: GraphView) -> Set[Edge]:
    return {(name, other) for name in view.nodes for other in view.controls(name)}


def _implied(view: GraphView, name: str, other: str) -> bool:
    """Whether `name` waits for `other` by a path, or by one through each input of a Merge."""
    return name in _behind(view, other)


def _behind(view: GraphView, other: str) -> Set[str]:
    """The nodes that wait for `other`, and itself."""
    behind, waiting = {other}, [other]
    while waiting:
        at = waiting.pop()
        readers = {c.node for c in view.consumers(at) if _runs_after(view, c.node, behind)}
        fresh = readers.union(view.control_consumers(at)) - behind
        behind |= fresh
        waiting.extend(fresh)
    return behind


def _runs_after(view: GraphView, name: str, behind: Set[str]) -> bool:
    """Whether a node that reads one of some nodes runs, or is dead, only after it."""
    inputs = {port.node for port in view.inputs(name)}
    if view.nodes[name].op in MERGES:
        loops = any(view.nodes[each].op in NEXT_ITERATIONS for each in inputs)
        return inputs <= behind and not loops
    return view.nodes[name].op not in NEXT_ITERATIONS


def _only_order_differs(before: GraphView, after: GraphView) -> bool:
    if list(before.nodes) != list(after.nodes):
        return False
    return all(
        _without_order(node) == _without_order(after.nodes[name])
        for name, node in before.nodes.items()
        if node != after.nodes[name]
    )


def _without_order(node: Any) -> bytes:
    copy = tf.NodeDef()
    copy.CopyFrom(node)
    copy.input[:] = [text for text in node.input if not text.startswith("^")]
    return serialize(copy)


def _same_beside_nodes(one: tf.MetaGraphDef, other: tf.MetaGraphDef) -> bool:
    """Whether two graphs differ only in the nodes of the main graph, but for the order of sums."""
    return _beside_nodes(one) == _beside_nodes(other)


def _beside_nodes(meta_graph: tf.MetaGraphDef) -> bytes:
    rest = tf.MetaGraphDef()
    rest.CopyFrom(meta_graph)
    del rest.graph_def.node[:]
    for function in rest.graph_def.library.function:
        listed = _only_reduced(function)
        for node in function.node_def:
            if node.op == "AddN" or node.name in listed:
                node.input[:] = sorted(node.input)
    return serialize(rest)


def _only_reduced(function: Any) -> Set[str]:
    """The lists of scalars in a body that the conversion added, of which the order isn't seen."""
    names = {
        node.name
        for node in function.node_def
        if node.op == "Pack" and node.name.startswith(SCOPE + "/")
    }
    returned = {text.split(":")[0] for text in function.ret.values()}
    seen = {
        text.split(":")[0]
        for node in function.node_def
        if node.op not in _IN_ANY_ORDER
        for text in node.input
    }
    return names - seen - returned


def _different(subject: Subject, view: GraphView) -> Set[str]:
    """Nodes of the original, and those with effects, that behave differently."""
    numbers = _Numbers(subject)
    before, after = numbers.of(subject.view), numbers.of(view)
    wanted = {
        name
        for name in subject.view.nodes
        if name in subject.before.nodes or numbers.stays(subject.view, name)
    }
    wanted |= {name for name in view.nodes if numbers.stays(view, name)}
    return {name for name in wanted if before.get(name, -1) != after.get(name, -2)}


def _unseen(subject: Subject, view: GraphView, names: Set[str]) -> bool:
    """Whether some nodes have no effect, and are multiples of the original's when unmutated."""
    numbers = _Numbers(subject)
    if not names <= _multiplied(subject) or names & _named(subject.converted):
        return False
    for graph in (subject.view, view):
        behind = graph.descendants(names, control=False)
        if any(
            name in subject.before.nodes or numbers.stays(graph, name) for name in behind - names
        ):
            return False
    return not any(numbers.stays(graph, name) for graph in (subject.view, view) for name in names)


def _multiplied(subject: Subject) -> Set[str]:
    """Nodes of the original that depend on a scaled seed by data, but on no unscaling."""
    found: Set[str] = set()
    waiting = list(subject.seeds)
    while waiting:
        readers = (
            {consumer.node for consumer in subject.view.consumers(waiting.pop())}
            - found
            - set(subject.unscales)
        )
        found |= readers
        waiting += readers
    return found & set(subject.before.nodes)


def _named(meta_graph: tf.MetaGraphDef) -> Set[str]:
    """Nodes that a collection or a signature names."""
    names = [
        name
        for collection in meta_graph.collection_def.values()
        for name in collection.node_list.value
    ]
    names += [
        info.name
        for signature in meta_graph.signature_def.values()
        for info in signature.outputs.values()
    ]
    return {parse_input(name).node for name in names if name}


class _Numbers:
    """Numbers of values, shared by several graphs."""

    def __init__(self, subject: Subject):
        self._subject, self._defs = subject, subject.defs
        self._known: Dict[Any, int] = {}
        self._halves: Dict[int, int] = {}  # of values that a half-precision type holds

    def stays(self, view: GraphView, name: str) -> bool:
        """Whether a node has effects: state, a reference, a handle, or control flow."""
        node = view.nodes[name]
        definition = self._defs.get(node.op)
        if (
            definition is None
            or definition.is_stateful
            or node.op in _CONTROL_FLOW
            or node.op.startswith("Placeholder")
        ):
            return True
        return any(
            argument.is_ref or argument.type == tf.resource.as_datatype_enum
            for argument in definition.input_arg
        ) or self._reads_state(view, name)

    def _reads_state(self, view: GraphView, name: str) -> bool:
        for port in view.inputs(name):
            signature = self._defs.signature(view.nodes[port.node])
            if (
                signature is None
                or port.output >= len(signature.outputs)
                or signature.outputs[port.output].is_ref
            ):
                return True
        return False

    def of(self, view: GraphView) -> Dict[str, int]:
        """The number of each node."""
        found: Dict[str, int] = {}
        events: Dict[str, FrozenSet[int]] = {}
        for name in _in_order(view):
            found[name] = self._number(view, name, found, events)
            events[name] = self._event(view, name, found, events)
        return found

    def _event(
        self,
        view: GraphView,
        name: str,
        found: Dict[str, int],
        events: Dict[str, FrozenSet[int]],
    ) -> FrozenSet[int]:
        """The numbers of the nodes with effects that a node waits for, or its own if it has any."""
        if self.stays(view, name):
            return frozenset((found[name],))

        def there(port: Port) -> FrozenSet[int]:  # of a Switch one output is, and one is dead
            if port.node in found and self.stays(view, port.node):
                return frozenset((self._output(found, port),))
            return events.get(port.node, _UNKNOWN)

        waits = (events.get(each, _UNKNOWN) for each in view.controls(name))
        return _NOTHING.union(*waits, *map(there, view.inputs(name)))

    def _number(
        self, view: GraphView, name: str, found: Dict[str, int], events: Dict[str, FrozenSet[int]]
    ) -> int:
        number = self._value(view, name, found, events)
        half = self._half(view, Port(name, 0), found)
        if half:
            self._halves.setdefault(number, half)
        return number

    def _value(
        self, view: GraphView, name: str, found: Dict[str, int], events: Dict[str, FrozenSet[int]]
    ) -> int:
        node = view.nodes[name]
        inputs = [self._output(found, port) for port in view.inputs(name)]
        awaited = _NOTHING.union(*(events.get(other, _UNKNOWN) for other in view.controls(name)))
        controls = tuple(sorted(awaited))
        if node.op in COMMUTE or node.op == "AddN":
            inputs.sort(key=str)
        if self.stays(view, name):
            without = ("validate_shape",) if self._writes_a_scalar(view, name) else ()
            attributes = _attributes(node, without)
            return self._intern((name, node.op, attributes, tuple(inputs), controls))
        if self._is_its_input(view, name, found):
            return self._output(found, view.inputs(name)[0])
        listed = self._in_any_order(view, name, found)
        types = ("T",) if self._moves(view, name, found) else ()
        op = _ONE_OP.get(node.op, node.op)
        return self._intern((op, _attributes(node, types), listed or tuple(inputs), controls))

    def _writes_a_scalar(self, view: GraphView, name: str) -> bool:
        """Whether a node writes a variable of the scale, which is a scalar."""
        if view.nodes[name].op not in ("Assign", "AssignVariableOp"):
            return False
        variable = view.inputs(name)[0].node
        while view.nodes[variable].op in SWITCHES:
            variable = view.inputs(variable)[0].node
        return (
            view.nodes[variable].op in VARIABLE_OPS and variable not in self._subject.before.nodes
        )

    def _is_its_input(self, view: GraphView, name: str, found: Dict[str, int]) -> bool:
        """Whether a node gives its input's values, and as soon: rules a and c."""
        node = view.nodes[name]
        if node.op not in ("Identity", "Cast"):
            return False
        port = view.inputs(name)[0]
        if port.node not in found or not all(
            _implied(view, port.node, other) for other in view.controls(name)
        ):
            return False
        if node.op == "Identity":
            return True
        source, target = node.attr["SrcT"].type, node.attr["DstT"].type
        half = self._half(view, port, found)
        return bool(half) and {source, target} <= {half, FLOAT32}

    def _half(self, view: GraphView, port: Port, found: Dict[str, int]) -> Optional[int]:
        """The half-precision type that holds an output; None if there is none.

        It is the output's own type, or that of all values that are moved into it.
        """
        signature = self._defs.signature(view.nodes[port.node])
        dtype = signature.output(port.output).dtype if signature is not None else INVALID
        if dtype in HALF:
            return int(dtype)
        return self._halves.get(self._output(found, port)) if port.node in found else None

    def _moves(self, view: GraphView, name: str, found: Dict[str, int]) -> bool:
        """Whether a node gives the same in half precision and in float32."""
        node, signature = view.nodes[name], self._defs.signature(view.nodes[name])
        if node.op not in _MOVE | _COMPARE or signature is None or len(signature.outputs) != 1:
            return False
        typed = [
            port
            for port, given in zip(view.inputs(name), signature.inputs)
            if given.attribute == "T"
        ]
        halves = {self._half(view, port, found) for port in typed}
        return len(halves) == 1 and None not in halves and (node.op in _MOVE or halves == {FLOAT16})

    def _in_any_order(self, view: GraphView, name: str, found: Dict[str, int]) -> Any:
        """The inputs, in canonical order, if a node reduces a list to a scalar; else None.

        Also a list whose elements are tested for finiteness first.
        """
        node = view.nodes[name]
        if node.op not in _IN_ANY_ORDER or self._subject.shape(Port(name, 0)) != ():
            return None
        port = view.inputs(name)[0]
        tests: List[Tuple[str, ...]] = []
        while view.nodes[port.node].op == "IsFinite":
            tests.append(tuple(sorted(view.controls(port.node))))
            port = view.inputs(port.node)[0]
        rank = _LISTS.get(view.nodes[port.node].op)
        if rank is None or view.controls(port.node):
            return None
        listed = view.inputs(port.node)[: -1 if rank else None]  # without the axis
        shapes = [self._subject.shape(port) for port in listed]
        if any(shape is None or len(shape) != rank for shape in shapes):
            return None
        return (*tests, *sorted((self._output(found, each) for each in listed), key=str))

    def _output(self, found: Dict[str, int], port: Port) -> Any:
        """The number of an output; the first has its node's number.

        A node that is numbered later, as in a loop, stands for itself.
        """
        if port.node not in found:
            return port
        number = found[port.node]
        return self._intern(("output", number, port.output)) if port.output else number

    def _intern(self, key: Any) -> int:
        return self._known.setdefault(key, len(self._known))


def _attributes(node: Any, without: Tuple[str, ...] = ()) -> Any:
    if node.op == "Const":
        value = np.asarray(tf.make_ndarray(node.attr["value"].tensor))
        return (
            node.attr["dtype"].type,
            value.shape,
            value.tobytes() if value.dtype != object else repr(value.tolist()),
        )
    return tuple(
        (key, serialize(node.attr[key]))
        for key in sorted(node.attr)
        if key != "_output_shapes" and key not in without
    ) + (node.device,)


def _in_order(view: GraphView) -> List[str]:
    """The nodes, each after its inputs, without the edges from a NextIteration."""
    order: List[str] = []
    left: Dict[str, int] = {}
    readers: Dict[str, List[str]] = {}
    for name, node in view.nodes.items():
        before = {port.node for port in view.inputs(name)} | set(view.controls(name))
        before = {
            other
            for other in before
            if not (node.op in MERGES and view.nodes[other].op in NEXT_ITERATIONS)
        }
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
