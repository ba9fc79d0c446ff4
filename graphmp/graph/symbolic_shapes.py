"""Dimensions as numbers or symbols: which tensors have equal shapes, though nobody knows how large they are.

`x [?, 768]`, `tanh(x) [?, 768]`, `x * tanh(x)`: one symbol stands for all three unknown dimensions, so that the sums of the
product's gradient, which undo broadcasting, are known to sum nothing. Recorded shapes give the numbers; the ops say where a
dimension comes from. Two dimensions of the same symbol are equal in every run; of others nothing is known. What a Merge or a
Stack gives has symbols of its own, since it may come from another iteration.
"""

from __future__ import annotations

import operator
import pathlib
from typing import Any, Callable, Dict, Generator, Hashable, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph import tables
from graphmp.graph.shapes import recorded_dimensions
from graphmp.graph.view import GraphView, Port

Dims = Optional[Tuple[Hashable, ...]]  # None where the rank is unknown

_RULES = tables.sets(pathlib.Path(__file__).with_name("shape_rules.txt"))
_MOST_AXES = 16  # a longer constant is no shape


class _Question(NamedTuple):
    """The shape of a tensor, or the shape that it holds."""

    port: Port
    held: bool


Rule = Generator[_Question, Dims, Dims]


class SymbolicShapes:
    """The dimensions of a graph's tensors, each worked out when it is asked for."""

    def __init__(self, view: GraphView):
        """Args: view: the graph; what its nodes record in `_output_shapes` is known."""
        self._view = view
        self._known: Dict[_Question, Dims] = {}

    def of(self, port: Port) -> Dims:
        """The dimensions of a tensor: numbers, and symbols for the unknown ones."""
        return self._answer(_Question(port, held=False))

    def held(self, port: Port) -> Dims:
        """The dimensions that an integer tensor holds, a shape or a part of one; None for what can't be followed."""
        return self._answer(_Question(port, held=True))

    def reduces_nothing(self, name: str) -> bool:
        """Whether a Sum undoes a broadcast that there was none of: its axes are BroadcastGradientArgs of shapes that need none."""
        axes = self._view.inputs(name)[1]
        if self._view.nodes[axes.node].op != "BroadcastGradientArgs":
            return False
        shapes = [self.held(port) for port in self._view.inputs(axes.node)]
        own, other = shapes[axes.output], shapes[1 - axes.output]
        return own is not None and other is not None and _broadcast(own, other) == own

    def _answer(self, question: _Question) -> Dims:
        """Depth first, without recursion: a rule yields what it needs to know. A graph may be deeper than Python's stack."""
        if question in self._known:
            return self._known[question]
        waiting = [(question, self._rule(question))]
        asked = {question}
        answer: Dims = None
        while waiting:
            current, rule = waiting[-1]
            try:
                wanted = rule.send(answer)
            except StopIteration as done:
                answer = self._known[current] = done.value
                waiting.pop()
                continue
            if wanted in asked and wanted not in self._known:  # a cycle leads back to it
                self._known[wanted] = None if wanted.held else self._recorded(wanted.port)
            if wanted in self._known:
                answer = self._known[wanted]
            else:
                asked.add(wanted)
                waiting.append((wanted, self._rule(wanted)))
                answer = None
        return self._known[question]

    def _recorded(self, port: Port) -> Dims:
        node = self._view.nodes[port.node]
        dims = recorded_dimensions(node, port.output, -1)
        if dims is None and node.op == "Placeholder" and "shape" in node.attr and not node.attr["shape"].shape.unknown_rank:
            dims = [int(dim.size) for dim in node.attr["shape"].shape.dim]
        return None if dims is None else tuple((port, axis) if dim < 0 else dim for axis, dim in enumerate(dims))

    def _rule(self, question: _Question) -> Rule:
        if question.held:
            return self._values(question.port)
        return self._dims(question.port)

    def _dims(self, port: Port) -> Rule:
        recorded = self._recorded(port)
        if recorded is not None and all(isinstance(dim, int) for dim in recorded):
            return recorded
        found = yield from self._by_op(port)
        if found is None or (recorded is not None and len(found) != len(recorded)):
            return recorded
        return found if recorded is None else tuple(r if isinstance(r, int) else f for r, f in zip(recorded, found))

    def _by_op(self, port: Port) -> Rule:
        node, inputs = self._view.nodes[port.node], self._view.inputs(port.node)
        op = node.op
        if op == "Const":
            return tuple(dim.size for dim in node.attr["value"].tensor.tensor_shape.dim)
        if not inputs or (port.output and op != "Switch"):
            return None
        for place, rules in enumerate((("as_first", "held_by_first"), ("as_second", "held_by_second"))):
            for rule, held in zip(rules, (False, True)):
                if op in _RULES[rule]:
                    return (yield _Question(inputs[place], held))
        if op in _RULES["broadcast"]:
            first, second = (yield _Question(inputs[0], False)), (yield _Question(inputs[1], False))
            return None if first is None or second is None else _broadcast(first, second)
        if op in _RULES["batched"]:
            first = yield _Question(inputs[0], False)
            return None if first is None else first[:1] + tuple((port, axis) for axis in range(1, len(first)))
        if op == "ConcatV2":
            first, axis = (yield _Question(inputs[0], False)), (yield _Question(inputs[-1], True))
            return _joined_along(first, axis, port)
        if op == "Reshape":
            source, wanted = (yield _Question(inputs[0], False)), (yield _Question(inputs[1], True))
            return None if wanted is None else _reshaped(source, wanted, port)
        if op == "MatMul":
            first, second = (yield _Question(inputs[0], False)), (yield _Question(inputs[1], False))
            return _product_of_matrices(node, first, second)
        if op == "Transpose":
            source, order = (yield _Question(inputs[0], False)), (yield _Question(inputs[1], True))
            return _transposed(source, order)
        if op in ("Gather", "GatherV2"):
            table, places = (yield _Question(inputs[0], False)), (yield _Question(inputs[1], False))
            axis = (0,) if op == "Gather" else (yield _Question(inputs[2], True))
            return places + table[1:] if table and places is not None and axis == (0,) else None
        return None

    def _values(self, port: Port) -> Rule:
        node, inputs = self._view.nodes[port.node], self._view.inputs(port.node)
        op = node.op
        if op == "Const":
            return _constant(node)
        if op in ("Shape", "ShapeN"):
            return (yield _Question(inputs[port.output], False))
        if op in _RULES["hands_on"]:
            return (yield _Question(inputs[0], True))
        if op in ("Pack", "ConcatV2"):  # of shapes there is one axis to join along
            joined: Tuple[Hashable, ...] = ()
            for part in inputs if op == "Pack" else inputs[:-1]:
                held = yield _Question(part, True)
                if held is None:
                    return None
                joined += held
            return joined
        if op == "StridedSlice":
            parts = []
            for part in inputs:
                parts.append((yield _Question(part, True)))
            return _sliced(node, *parts)
        if op in _ARITHMETIC:
            first, second = (yield _Question(inputs[0], True)), (yield _Question(inputs[1], True))
            return (_ARITHMETIC[op](first[0], second[0]),) if first and second and len(first) == len(second) == 1 else None
        return None


def _constant(node: tf.NodeDef) -> Dims:
    tensor = node.attr["value"].tensor
    if tensor.dtype not in (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum) or len(tensor.tensor_shape.dim) > 1:
        return None
    if tensor.tensor_shape.dim and tensor.tensor_shape.dim[0].size > _MOST_AXES:
        return None
    return tuple(int(value) for value in tf.make_ndarray(tensor).reshape(-1))


def _broadcast(first: Tuple[Hashable, ...], second: Tuple[Hashable, ...]) -> Tuple[Hashable, ...]:
    """The dimensions of what two tensors are broadcast to."""
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second)
    return tuple(_joined(a, b) for a, b in pairs)


def _joined(a: Hashable, b: Hashable) -> Hashable:
    if a == b or b == 1:
        return a
    if a == 1 or isinstance(b, int):
        return b
    return a if isinstance(a, int) else ("broadcast", a, b)


def _of_numbers(function: Callable[[int, int], int], name: str) -> Callable[[Hashable, Hashable], Hashable]:
    """A function of two dimensions: a number of two numbers, else a symbol."""
    return lambda a, b: function(a, b) if isinstance(a, int) and isinstance(b, int) else (name, a, b)


_ARITHMETIC: Dict[str, Callable[[Hashable, Hashable], Hashable]] = {
    "Add": _of_numbers(operator.add, "sum"),
    "AddV2": _of_numbers(operator.add, "sum"),
    "Maximum": _of_numbers(max, "maximum"),
    "Minimum": _of_numbers(min, "minimum"),
    "Mul": lambda a, b: _product((a, b)),
    "Sub": _of_numbers(operator.sub, "difference"),
}


def _reshaped(source: Dims, wanted: Tuple[Hashable, ...], port: Port) -> Dims:
    """The dimensions that a Reshape gives; -1 is what is left over."""
    if -1 not in wanted:
        return wanted
    rest = None if source is None else _quotient(source, [dim for dim in wanted if dim != -1])
    return tuple((rest or (port, axis)) if dim == -1 else dim for axis, dim in enumerate(wanted))


def _joined_along(first: Dims, axis: Dims, port: Port) -> Dims:
    """The dimensions of a concatenation: the first input's but for one."""
    if first is None or axis is None or not isinstance(axis[0], int) or not -len(first) <= axis[0] < len(first):
        return None
    return tuple((port, place) if place == axis[0] % len(first) else dim for place, dim in enumerate(first))


def _product_of_matrices(node: tf.NodeDef, first: Dims, second: Dims) -> Dims:
    if first is None or second is None or len(first) != 2 or len(second) != 2:
        return None
    return first[_option(node, "transpose_a")], second[1 - _option(node, "transpose_b")]


def _transposed(source: Dims, order: Dims) -> Dims:
    if source is None or order is None or sorted(map(str, order)) != sorted(map(str, range(len(source)))):
        return None
    return tuple(source[axis] for axis in order if isinstance(axis, int))


def _sliced(node: tf.NodeDef, source: Dims, begin: Dims, end: Dims, step: Dims) -> Dims:
    """A part of a shape by StridedSlice, of step 1."""
    if source is None or not begin or not end or step != (1,):
        return None
    first, last = begin[0], end[0]
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    if _option(node, "shrink_axis_mask"):
        return (source[first],) if -len(source) <= first < len(source) else None
    return source[None if _option(node, "begin_mask") else first : None if _option(node, "end_mask") else last]


def _option(node: tf.NodeDef, key: str) -> int:
    """A flag or number of a node; asking a protobuf map for a missing key would add it."""
    return int(node.attr[key].b or node.attr[key].i) if key in node.attr else 0


def _factors(dims: Any) -> Tuple[int, List[Hashable]]:
    """A number and symbols, products taken apart."""
    number, symbols = 1, []  # type: int, List[Hashable]
    for dim in dims:
        if isinstance(dim, int):
            number *= dim
        elif isinstance(dim, tuple) and dim[0] == "product":
            number *= dim[1]
            symbols += dim[2]
        else:
            symbols.append(dim)
    return number, symbols


def _product(dims: Any) -> Hashable:
    """One dimension that is the product of several, the same however it is written."""
    number, symbols = _factors(dims)
    if not symbols:
        return number
    return symbols[0] if number == 1 and len(symbols) == 1 else ("product", number, tuple(sorted(symbols, key=str)))


def _quotient(dims: Any, by: Any) -> Optional[Hashable]:
    """The product of dimensions divided by that of others; None where it doesn't come out."""
    number, symbols = _factors(dims)
    divisor, gone = _factors(by)
    for symbol in gone:
        if symbol not in symbols:
            return None
        symbols.remove(symbol)
    return _product([number // divisor, *symbols]) if divisor and number % divisor == 0 else None
