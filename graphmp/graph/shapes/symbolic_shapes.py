"""Symbolic dimensions: which tensors have equal shapes of unknown size.

`x [?, 768]`, `tanh(x) [?, 768]`, `x * tanh(x)`: one symbol denotes all three unknown dimensions,
so that the sums in the product's gradient, which undo broadcasting, are known to sum nothing.
Recorded shapes give the numbers; the ops tell where a dimension comes from (`shape_rules.txt`,
`shape_rules.py`). A placeholder that holds a probability of dropout is a scalar. Two dimensions of
the same symbol are equal in every run; about two different symbols nothing is known.

Values that a while loop changes get symbols of their own, since they may come from another
iteration. However, a loop variable that keeps its shape has the shape of its initial value, and a
Stack returns the value pushed in the iteration that a pop belongs to.
"""

from __future__ import annotations

from typing import AbstractSet, Dict

from graphmp.graph.shapes.dimensions import Dims, broadcast
from graphmp.graph.shapes.probabilities import probabilities
from graphmp.graph.shapes.saved_values import SavedValues
from graphmp.graph.shapes.shape_rules import HELD, SHAPES, Question, Rule, constant
from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy import tables
from graphmp.policy.op_sets import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, POPS, SWITCHES

_RULES = tables.sets("shape_rules.txt")
_NONE: AbstractSet[str] = frozenset()


class SymbolicShapes:
    """The dimensions of a graph's tensors, each computed on demand."""

    def __init__(self, view: GraphView, steady: AbstractSet[str] = _NONE):
        """Reads nothing yet.

        Args:
            view: the graph; shapes recorded in `_output_shapes` are used.
            steady: the Merges of loop variables that keep their initial shape
                (`steady_variables.py`).
        """
        self._view = view
        self._steady = steady
        self._saved = SavedValues(view)
        self._probabilities = probabilities(view)
        self._known: Dict[Question, Dims] = {}

    def of(self, port: Port) -> Dims:
        """The dimensions of a tensor: numbers, and symbols for the unknown ones."""
        return self._answer(Question(port, held=False))

    def held(self, port: Port) -> Dims:
        """The dimensions that an integer tensor holds, a shape or part of one; None if unknown."""
        return self._answer(Question(port, held=True))

    def reduces_nothing(self, name: str) -> bool:
        """Whether a Sum undoes a broadcast that didn't happen.

        Its axes are BroadcastGradientArgs of shapes that need no broadcast.
        """
        axes = self._view.inputs(name)[1]
        if self._view.nodes[axes.node].op != "BroadcastGradientArgs":
            return False
        shapes = [self.held(port) for port in self._view.inputs(axes.node)]
        own, other = shapes[axes.output], shapes[1 - axes.output]
        return own is not None and other is not None and broadcast(own, other) == own

    def _answer(self, question: Question) -> Dims:
        """Depth first, without recursion: a graph may be deeper than Python's stack.

        A rule yields the questions that it needs answered.
        """
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
        if port.node in self._probabilities:
            return ()
        dims = recorded_dimensions(node, port.output, -1)
        if (
            dims is None
            and node.op == "Placeholder"
            and "shape" in node.attr
            and not node.attr["shape"].shape.unknown_rank
        ):
            dims = [int(dim.size) for dim in node.attr["shape"].shape.dim]
        return (
            None
            if dims is None
            else tuple((port, axis) if dim < 0 else dim for axis, dim in enumerate(dims))
        )

    def _rule(self, question: Question) -> Rule:
        if self._view.nodes[question.port.node].op in POPS:
            return self._popped(question)
        return self._values(question.port) if question.held else self._dims(question.port)

    def _popped(self, question: Question) -> Rule:
        pushed = self._saved.pushed(question.port.node)
        found = None if pushed is None else (yield Question(pushed, question.held))
        return found if found is not None or question.held else self._recorded(question.port)

    def _dims(self, port: Port) -> Rule:
        recorded = self._recorded(port)
        if recorded is not None and all(isinstance(dim, int) for dim in recorded):
            return recorded
        found = yield from self._by_op(port)
        if found is None or (recorded is not None and len(found) != len(recorded)):
            return recorded
        return (
            found
            if recorded is None
            else tuple(r if isinstance(r, int) else f for r, f in zip(recorded, found))
        )

    def _by_op(self, port: Port) -> Rule:
        node, inputs = self._view.nodes[port.node], self._view.inputs(port.node)
        op = node.op
        if op == "Const":
            return tuple(dim.size for dim in node.attr["value"].tensor.tensor_shape.dim)
        if not inputs:
            return None
        if op in EXITS or (
            op in MERGES
            and any(self._view.nodes[each.node].op in NEXT_ITERATIONS for each in inputs)
        ):
            return (yield from self._variable(port.node))
        if op == "TensorArrayReadV3":
            return (yield from self._row(port.node))
        if op in SHAPES:
            return (yield from SHAPES[op](port, node, inputs))
        if port.output and op != "Switch":
            return None
        for place, rules in enumerate(
            (("as_first", "held_by_first"), ("as_second", "held_by_second"))
        ):
            for rule, held in zip(rules, (False, True)):
                if op in _RULES[rule]:
                    return (yield Question(inputs[place], held))
        if op in _RULES["broadcast"]:
            first, second = (yield Question(inputs[0], False)), (yield Question(inputs[1], False))
            return None if first is None or second is None else broadcast(first, second)
        if op in _RULES["batched"]:
            first = yield Question(inputs[0], False)
            return (
                None
                if first is None
                else first[:1] + tuple((port, axis) for axis in range(1, len(first)))
            )
        return None

    def _variable(self, name: str) -> Rule:
        """The Merge or the Exit of a loop variable.

        One that keeps its shape has the initial shape.
        """
        name = self._view.behind(Port(name, 0), EXITS | SWITCHES).node
        if name not in self._steady:
            return None
        return (
            yield Question(
                next(
                    port
                    for port in self._view.inputs(name)
                    if self._view.nodes[port.node].op in ENTERS
                ),
                False,
            )
        )

    def _row(self, name: str) -> Rule:
        rows = self._saved.scattered(name)
        found = None if rows is None else (yield Question(rows, False))
        return found[1:] if found else None

    def _values(self, port: Port) -> Rule:
        node, inputs = self._view.nodes[port.node], self._view.inputs(port.node)
        if node.op == "Const":
            return constant(node)
        if node.op in HELD:
            return (yield from HELD[node.op](port, node, inputs))
        if node.op in _RULES["hands_on"]:
            return (yield Question(inputs[0], True))
        return None
