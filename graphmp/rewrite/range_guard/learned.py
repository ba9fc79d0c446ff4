"""Layers: allow ops that read learned weights and something else.

1. Weights are a trainable variable. In a function's body an argument may be one.
2. If an op reads none, weights are what a trainable variable of as many elements is changed into,
   element by element: the numerator of weights over their norm, `w * mask`, `w + delta`, and the
   weights of an inner step of meta-learning. A gain of fewer elements makes no weights of what it
   multiplies. A divisor made of data doesn't either: it may give any range.
"""

from __future__ import annotations

from typing import AbstractSet, List, Optional, Sequence, Set

from graphmp.graph.state.state import variable_behind
from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.policy.op_sets import ARGUMENT, SUMS, VARIABLE_OPS
from graphmp.policy.traits import DIVIDES, KEEPS_VALUES
from graphmp.rewrite.units import TypedGraph

_CHANGES = SUMS | {
    *("Abs", "ClipByValue", "Maximum", "Minimum", "Mul", "Neg", "Relu", "Sign", "Sub", "Tanh")
}
_NO_DATA = VARIABLE_OPS | {ARGUMENT, "Const"}


class Layers:
    """Tells the layers of a body from its other allow ops."""

    def __init__(
        self, graph: TypedGraph, trainable: Optional[AbstractSet[str]], changed: bool = True
    ):
        """Nothing is read yet.

        Args:
            graph: the body.
            trainable: the trainable variables; None if unknown, then any counts as one.
            changed: whether rule 2 counts.
        """
        self._graph, self._view, self._trainable = graph, graph.view, trainable
        self._counts_changed = changed

    def is_layer(self, name: str) -> bool:
        """Whether an allow op reads weights and something else."""
        read = [port for port in self._view.inputs(name) if self._graph.writer(port) >= 0]
        learned = [self._is_variable(port) for port in read]
        if self._counts_changed and not any(learned):
            learned = [self._is_changed(port) for port in read]
        return any(learned) and not all(learned)

    def _is_variable(self, port: Port) -> bool:
        """Whether a tensor is a trainable variable's value, or a function's argument."""
        source = self._view.behind(port, KEEPS_VALUES).node
        variable = variable_behind(self._view, source)
        if variable is not None:
            return self._trainable is None or variable in self._trainable
        inputs = self._view.inputs(source)
        names = [source, *(port.node for port in inputs[:1])]
        return any(self._view.nodes[each].op == ARGUMENT for each in names)

    def _is_changed(self, port: Port) -> bool:
        """Whether a tensor is made of a trainable variable's value, element by element."""
        seen: Set[Port] = set()
        waiting = [port]
        while waiting:
            port = self._view.behind(waiting.pop(), KEEPS_VALUES)
            if port in seen:
                continue
            seen.add(port)
            if self._is_variable(port):
                return True
            waiting.extend(self._changed(port))
        return False

    def _changed(self, port: Port) -> List[Port]:
        """The tensors of the same size that are changed into a tensor."""
        op, read = self._view.nodes[port.node].op, self._view.inputs(port.node)
        changed: Sequence[Port] = read if op in _CHANGES else ()
        if op in DIVIDES and read[1].node not in self._of_data:
            changed = read[:1]
        size = self._graph.elements.recorded(port)
        return [
            each
            for each in changed
            if size is not None and self._graph.elements.recorded(each) == size
        ]

    @once
    def _of_data(self) -> AbstractSet[str]:
        """Nodes that depend on more than variables and constants."""
        nodes = self._view.nodes
        given = {name for name in nodes if not self._view.inputs(name)}
        data = {name for name in given if nodes[name].op not in _NO_DATA}
        return data | self._view.descendants(data, control=False)
