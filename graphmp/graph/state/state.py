"""State in a serialised graph: variables behind nodes, their writes and their initial values."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, Iterable, Iterator, List, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import parse
from graphmp.graph.state.state_kinds import (
    PASS_HANDLES,
    PASS_REFERENCES,
    kind,
    returned_references,
    takes,
)
from graphmp.graph.structure.calls import functions_by_name, functions_named, with_callers
from graphmp.graph.structure.view import Consumer, GraphView, Port, parse_input
from graphmp.once import once
from graphmp.policy.dtypes import RESOURCE
from graphmp.policy.op_sets import (
    ARGUMENTS,
    CALLS,
    MAY_BE_STATE,
    OVERWRITES,
    READS,
    REFERENCED,
    SWITCHES,
    VARIABLE_OPS,
)

_HANDS_ON = READS | SWITCHES


def variable_behind(view: GraphView, name: str) -> Optional[str]:
    """The variable that a node is, refers to or reads, also through reads of reads; else None."""
    name = view.behind(Port(name, 0), _HANDS_ON).node
    return name if view.nodes[name].op in VARIABLE_OPS else None


def _nobody_knows(op_type: str) -> None:
    return None


class State:
    """The writes in the main graph of a MetaGraphDef."""

    def __init__(
        self,
        meta_graph: tf.MetaGraphDef,
        view: GraphView,
        definition: Callable[[str], Any] = _nobody_knows,
        ends: AbstractSet[str] = frozenset(),
        writing: Optional[Callable[[], AbstractSet[str]]] = None,
        library: Optional[AbstractSet[str]] = None,
    ):
        """Read the collections of variables once.

        Args:
            meta_graph: the graph with its collections and functions.
            view: its main graph.
            definition: returns the OpDef of an op type, None if unknown. An unknown op that is
                given a reference counts as writing it.
            ends: nodes that pass a handle on to something that writes it; they count as writes.
            writing: returns `writing_functions` of the library, where many bodies share it.
            library: names of the functions, likewise.
        """
        self._meta_graph = meta_graph
        self._writing = writing or (lambda: writing_functions(meta_graph.graph_def))
        self._view = view
        self._definition = definition
        self._ends = ends
        self._defined = {
            parse_input(d.variable_name).node: d
            for key in variable_keys(meta_graph)
            for d in definitions(meta_graph, key)
        }
        self._library = (
            functions_by_name(meta_graph.graph_def).keys() if library is None else library
        )
        self.initializers = frozenset(self._initializers())

    @once
    def writes(self) -> List[str]:
        """Nodes that write a variable or an accumulator, in the graph's order, no initialisers."""
        changing = self._view.in_graph_order(self._changes.keys() | self._ends)
        return [
            name
            for name in (self._view.nodes if self._library else changing)
            if name not in self.initializers and self.is_write(name)
        ]

    def is_write(self, name: str) -> bool:
        """Whether a node changes a variable or an accumulator.

        It takes one and isn't known to only read it, or calls a function that changes it.
        """
        return name in self._changes or name in self._ends or self._is_writing_call(name)

    def written(self, name: str) -> AbstractSet[str]:
        """The variables that a write changes."""
        return self._changes.get(name, frozenset())

    @once
    def writing_functions(self) -> AbstractSet[str]:
        """Functions of the library that change state, directly or through a call."""
        return self._writing()

    @once
    def _changes(self) -> Dict[str, AbstractSet[str]]:
        """The variables that each node may write, by a reference or handle.

        Empty for an accumulator.
        """
        found: Dict[str, Set[str]] = {}
        for name, node in self._view.nodes.items():
            if node.op in MAY_BE_STATE and (
                node.op not in ARGUMENTS
                or ("dtype" in node.attr and node.attr["dtype"].type == RESOURCE)
            ):
                for write in self._takers(name):
                    found.setdefault(write, set()).update([name] if node.op in VARIABLE_OPS else [])
        return {name: frozenset(variables) for name, variables in found.items()}

    def _takers(self, variable: str) -> Set[str]:
        """Nodes that take a node's reference or handle and may change its state."""
        is_handle = self._view.nodes[variable].op not in REFERENCED
        readers = self._view.handed_on(
            Port(variable, 0), lambda consumer: self._handed_on(consumer, is_handle)
        )
        return {
            consumer.node for consumer in readers if not self._leaves_alone(consumer, is_handle)
        }

    def _leaves_alone(self, consumer: Consumer, is_handle: bool) -> bool:
        node = self._view.nodes[consumer.node]
        if kind(node.op):
            return True
        if not is_handle:
            return not takes(self._definition(node.op), consumer.slot, node.attr)
        return _is_call(node, self._library) and not self._is_writing_call(consumer.node)

    def _handed_on(self, consumer: Consumer, is_handle: bool) -> Iterable[int]:
        """The outputs of a reader that are the reference or handle it was given."""
        node = self._view.nodes[consumer.node]
        if node.op in (PASS_HANDLES if is_handle else PASS_REFERENCES):
            return (
                [consumer.slot]
                if node.op == "IdentityN"
                else range(2 if node.op in SWITCHES else 1)
            )
        return [] if is_handle or kind(node.op) else returned_references(self._definition(node.op))

    def _is_writing_call(self, name: str) -> bool:
        node = self._view.nodes[name]
        return (
            bool(self._library)
            and _is_call(node, self._library)
            and any(f in self.writing_functions for f in functions_named(node))
        )

    def variable(self, name: str) -> Optional[str]:
        """The variable that a node is, refers to, or reads; None if there is none."""
        return variable_behind(self._view, name)

    def collected(self, key: str) -> Optional[AbstractSet[str]]:
        """The variables of a collection; None if the graph has no such collection."""
        if key not in self._meta_graph.collection_def:
            return None
        return {parse_input(d.variable_name).node for d in definitions(self._meta_graph, key)}

    def _initializers(self) -> Iterator[str]:
        for definition in self._defined.values():
            yield parse_input(definition.initializer_name.lstrip("^")).node
        for name, node in self._view.nodes.items():
            if node.op in OVERWRITES and self._view.inputs(name):
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
    return sorted(
        key
        for key in meta_graph.collection_def
        if "variables" in key or key == tf.GraphKeys.GLOBAL_STEP
    )


def described(meta_graph: tf.MetaGraphDef) -> Set[str]:
    """Nodes by which a program gets a variable's value, or its initial value."""
    found = [
        definition
        for key in variable_keys(meta_graph)
        for definition in definitions(meta_graph, key)
    ]
    names = [
        name
        for definition in found
        for name in (definition.snapshot_name, definition.initial_value_name)
    ]
    return {parse_input(name).node for name in names if name}


def writing_functions(graph_def: tf.GraphDef) -> AbstractSet[str]:
    """Functions that change state, directly or through a call."""
    library = functions_by_name(graph_def)
    return with_callers(
        graph_def,
        {name for name, function in library.items() if writes_itself(function, library.keys())},
    )


def writes_itself(function: Any, library: AbstractSet[str]) -> bool:
    """Whether a node of a function's body writes by the handle of a variable or an argument."""
    handles = {
        argument.name for argument in function.signature.input_arg if argument.type == RESOURCE
    }
    handles |= {node.name for node in function.node_def if node.op in VARIABLE_OPS}
    waiting = list(function.node_def) if handles else []
    count = -1
    while len(handles) != count:  # the nodes of a body are in no particular order
        count = len(handles)
        handles |= {
            node.name for node in waiting if node.op in PASS_HANDLES and _reads(node, handles)
        }
    return any(
        not kind(node.op) and not _is_call(node, library) and _reads(node, handles)
        for node in waiting
    )


def _is_call(node: Any, library: AbstractSet[str]) -> bool:
    return node.op in CALLS or any(name in library for name in functions_named(node))


def _reads(node: Any, names: AbstractSet[str]) -> bool:
    return any(text.split(":")[0] in names for text in node.input if not text.startswith("^"))
