"""State in a serialised graph: which variable a node refers to, what writes to it, what gives it its first value."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.calls import functions_named
from graphmp.graph.live import ASSIGNS, FUNCTION_CALLS, READS, writes
from graphmp.graph.messages import parse
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.graph.view import GraphView, parse_input

_HANDS_ON = READS | {"RefSwitch", "Switch"}


def variable_behind(view: GraphView, name: str) -> Optional[str]:
    """The variable that a node is, refers to, or reads, itself or through reads of reads; None for anything else."""
    while view.nodes[name].op in _HANDS_ON and view.inputs(name):
        name = view.inputs(name)[0].node
    return name if view.nodes[name].op in VARIABLE_OPS else None


class State:
    """Who writes what in the main graph of a MetaGraphDef.

    Attributes:
        writes: nodes that write a variable or an accumulator, initialisers left out, in the order of the graph.
        initializers: nodes that give a variable its initial value.
    """

    def __init__(self, meta_graph: tf.MetaGraphDef, view: GraphView):
        """Reads the collections of variables and all nodes once."""
        self._meta_graph = meta_graph
        self._view = view
        self._defined = {parse_input(d.variable_name).node: d for key in variable_keys(meta_graph) for d in definitions(meta_graph, key)}
        self._calls = _writing_functions(meta_graph.graph_def)
        self.initializers = frozenset(self._initializers())
        self.writes: List[str] = [n for n in view.nodes if n not in self.initializers and self.is_write(n)]

    def is_write(self, name: str) -> bool:
        """Whether a node changes state: an update kernel, an assignment, a call of a function that has one."""
        node = self._view.nodes[name]
        if node.op in FUNCTION_CALLS or node.op in self._calls:
            return any(f in self._calls for f in functions_named(node))
        return writes(node.op)

    def variable(self, name: str) -> Optional[str]:
        """The variable that a node is, refers to, or reads; None for anything else."""
        return variable_behind(self._view, name)

    def written(self, name: str) -> Set[str]:
        """The variables behind what a write changes: an assignment's first input; of calls and update kernels all inputs, what they only read too."""
        ports = self._view.inputs(name)
        found = {self.variable(port.node) for port in (ports[:1] if self._view.nodes[name].op in ASSIGNS else ports)}
        return {variable for variable in found if variable is not None}

    def collected(self, key: str) -> Optional[AbstractSet[str]]:
        """The variables of a collection; None where the graph has no such collection."""
        if key not in self._meta_graph.collection_def:
            return None
        return {parse_input(d.variable_name).node for d in definitions(self._meta_graph, key)}

    def _initializers(self) -> Iterator[str]:
        for definition in self._defined.values():
            yield parse_input(definition.initializer_name.lstrip("^")).node
        for name, node in self._view.nodes.items():
            if node.op in ("Assign", "AssignVariableOp") and self._view.inputs(name):
                variable = self.variable(self._view.inputs(name)[0].node)
                if variable is not None and name == variable + "/Assign":
                    yield name


def definitions(meta_graph: tf.MetaGraphDef, key: str) -> Iterator[Any]:
    """The VariableDefs of a collection."""
    if key in meta_graph.collection_def:
        for data in meta_graph.collection_def[key].bytes_list.value:
            definition = parse("tensorflow.VariableDef", data)
            if definition is not None and definition.variable_name:
                yield definition


def variable_keys(meta_graph: tf.MetaGraphDef) -> List[str]:
    """The collections that hold variables."""
    return sorted(key for key in meta_graph.collection_def if "variables" in key or key == tf.GraphKeys.GLOBAL_STEP)


def _writing_functions(graph_def: tf.GraphDef) -> AbstractSet[str]:
    """Functions that change state, themselves or through a call."""
    calls: Dict[str, Set[str]] = {}
    found: Set[str] = set()
    for function in graph_def.library.function:
        calls[function.signature.name] = {name for node in function.node_def for name in [node.op, *functions_named(node)]}
        if any(writes(node.op) for node in function.node_def):
            found.add(function.signature.name)
    while True:
        more = {name for name, called in calls.items() if name not in found and called & found}
        if not more:
            return found
        found |= more
