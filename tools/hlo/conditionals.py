"""Replacement of the conditionals of TensorFlow 1 by selections.

Both branches run, which XLA can compile, and the predicate picks a result.

1. Switch(x, p) -> x, on both sides.
2. Merge(a, b) -> SelectV2(p, a, b), where p is the predicate on opposite sides of which a and b
   run, by data or control edges.
3. A write in a branch would run unconditionally: such a graph is refused.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.edit.editing import Editor
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView, Port
from graphmp.tf_hooks.op_definitions import op_definitions

SWITCHES = frozenset(("RefSwitch", "Switch"))
MERGES = frozenset(("Merge", "RefMerge"))
_COPIES = SWITCHES | {"Identity"}
_NO_GUARDS: FrozenSet[Tuple[Port, int]] = frozenset()


def selected(graph_def: tf.GraphDef) -> tf.GraphDef:
    """A copy without conditionals; the graph itself if it has none.

    Raises:
        GraphmpError: GMP020 for a write in a branch, and for a Merge of no conditional.
    """
    if not any(node.op in SWITCHES | MERGES for node in graph_def.node):
        return graph_def
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    _Selection(graph_def, Editor(result)).apply()
    return result


class _Selection:
    """The conversion of one graph: `graph_def` is the original, `editor` changes the copy."""

    def __init__(self, graph_def: tf.GraphDef, editor: Editor):
        self._view, self._editor = GraphView(graph_def), editor
        whole = tf.MetaGraphDef(graph_def=graph_def)
        self._state = State(whole, self._view, op_definitions(whole))
        self._guards: Dict[str, FrozenSet[Tuple[Port, int]]] = {}

    def apply(self) -> None:
        for name in self._in_order():
            node = self._view.nodes[name]
            inputs = [self._guards_of(port) for port in self._view.inputs(name)]
            guards = _NO_GUARDS.union(
                *inputs, *(self._guards[control] for control in self._view.controls(name))
            )
            if node.op in MERGES:
                guards = self._select(name, inputs)
            elif guards and self._state.is_write(name):
                predicate = sorted(guards)[0][0]
                raise GraphmpError(
                    "GMP020",
                    "node %s: it writes in a branch of a conditional, on %s, and XLA lowers no "
                    "Switch" % (name, predicate),
                )
            self._guards[name] = guards
            self._pass_by(name)

    def _in_order(self) -> List[str]:
        """The nodes, each after its data and control inputs."""
        order: Dict[str, None] = {}
        waiting = list(self._view.nodes)
        while waiting:
            name = waiting[-1]
            before = [
                n
                for n in (*(p.node for p in self._view.inputs(name)), *self._view.controls(name))
                if n not in order
            ]
            waiting.extend(before)
            if not before:
                order[waiting.pop()] = None
        return list(order)

    def _guards_of(self, port: Port) -> FrozenSet[Tuple[Port, int]]:
        """The predicates, with their sides, under which an output is computed."""
        guards = self._guards[port.node]
        if self._view.nodes[port.node].op not in SWITCHES:
            return guards
        return guards | {(self._predicate(port.node), port.output)}

    def _predicate(self, switch: str) -> Port:
        """The predicate of a Switch, followed through copies, which differ between its Switches."""
        port = self._view.inputs(switch)[1]
        while self._view.nodes[port.node].op in _COPIES:
            port = self._view.inputs(port.node)[0]
        return port

    def _select(
        self, name: str, inputs: List[FrozenSet[Tuple[Port, int]]]
    ) -> FrozenSet[Tuple[Port, int]]:
        """Turn a Merge into a selection; return the remaining guards of its result."""
        first, second = inputs if len(inputs) == 2 else (_NO_GUARDS, _NO_GUARDS)
        opposite = [
            (predicate, side) for predicate, side in first if (predicate, 1 - side) in second
        ]
        if len(opposite) != 1 or any(consumer.output for consumer in self._view.consumers(name)):
            raise GraphmpError(
                "GMP020",
                "node %s: it merges what no one predicate tells apart, and XLA lowers no Merge"
                % name,
            )
        predicate, side = opposite[0]
        yes, no = [self._value(port) for port in self._view.inputs(name)][:: 1 if side else -1]
        node = self._editor.nodes[name]
        node.input[:] = [
            str(predicate),
            str(yes),
            str(no),
            *(text for text in node.input if text.startswith("^")),
        ]
        node.op = "SelectV2"
        del node.attr["N"]
        return (first - {(predicate, side)}) & (second - {(predicate, 1 - side)})

    def _pass_by(self, name: str) -> None:
        """Connect the consumers of a Switch to its input, and turn it into a copy of that."""
        if self._view.nodes[name].op in MERGES:
            return
        for slot, port in enumerate(self._view.inputs(name)):
            self._editor.connect(name, slot, self._value(port))
        if self._view.nodes[name].op in SWITCHES:
            self._editor.nodes[name].op = "Identity"
            del self._editor.nodes[name].input[1]

    def _value(self, port: Port) -> Port:
        while self._view.nodes[port.node].op in SWITCHES:
            port = self._view.inputs(port.node)[0]
        return port
