"""The two compared graphs: nodes that only one of them has, and cached queries."""

from __future__ import annotations

from typing import (
    AbstractSet,
    Any,
    Callable,
    Container,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
)

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.mark import read_mark
from graphmp.graph.state.state import State
from graphmp.graph.structure.branches import Conditions, conditions
from graphmp.graph.structure.calls import functions_by_name
from graphmp.graph.structure.frames import Frames, frames
from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.once import once
from graphmp.policy.dtypes import FLOATS, HALF, INVALID, RESOURCE
from graphmp.policy.op_sets import ARGUMENT
from graphmp.tf_hooks.op_defs import OpDefs, Signature

_NONE = tf.AttrValue()
_NOTHING = tf.NodeDef()
_HANDLE = "VarHandleOp"


def attribute(node: tf.NodeDef, key: str) -> tf.AttrValue:
    """An attribute of a node, empty if missing.

    Looking up a missing key in a protobuf map would add it.
    """
    return node.attr.get(key, _NONE)


class Fault(NamedTuple):
    """A fault, or something that no rule covers.

    Attributes:
        node: the node of the converted graph, or of the original if it is missing there.
        text: the fault.
    """

    node: str
    text: str


class Side:
    """One body of a graph: the main graph, or a function's.

    Attributes:
        meta_graph: the graph; that of a function has its library, and no collections.
        function: the name of a function; empty for the main graph.
        arguments: names of a function's arguments; empty for the main graph. Handles among them are
            nodes like those of variables.
    """

    def __init__(
        self,
        meta_graph: tf.MetaGraphDef,
        graph_def: tf.GraphDef,
        op_defs: Optional[OpDefs] = None,
        function: str = "",
        view: Optional[GraphView] = None,
        writing: Optional[Callable[[], AbstractSet[str]]] = None,
        library: Optional[Mapping[str, Any]] = None,
    ):
        """Read the edges, unless `view` is a view of the body, and the functions, unless given."""
        self._writing = writing
        self.meta_graph, self.function = meta_graph, function
        self.arguments = [node.name for node in graph_def.node if node.op == ARGUMENT]
        for node in graph_def.node if function else ():  # a function's body is a copy
            if node.op == ARGUMENT and node.attr["T"].type == RESOURCE:
                node.op = _HANDLE
        self.view = GraphView(graph_def) if view is None else view
        self.op_defs = OpDefs(meta_graph) if op_defs is None else op_defs
        self._dtypes: Dict[Port, int] = {}
        self._signatures: Dict[str, Optional[Signature]] = {}
        self.library = functions_by_name(meta_graph.graph_def) if library is None else library

    def signature(self, name: str) -> Optional[Signature]:
        """The types of a node's inputs and outputs; None for an unknown op."""
        if name not in self._signatures:
            self._signatures[name] = self.op_defs.signature(self.view.nodes[name])
        return self._signatures[name]

    def dtype(self, port: Port) -> int:
        """The dtype of an output; 0 if unknown."""
        if port not in self._dtypes:
            self._dtypes[port] = self._dtype(port)
        return self._dtypes[port]

    def _dtype(self, port: Port) -> int:
        node = self.view.nodes[port.node]
        if node.op == ARGUMENT:  # unknown to 1.15.5
            return int(node.attr["T"].type)
        signature = self.signature(port.node)
        return signature.output(port.output).dtype if signature is not None else INVALID

    def is_float(self, port: Port) -> bool:
        """Whether an output has a real floating-point dtype."""
        return self.dtype(port) in FLOATS

    def is_reference(self, port: Port) -> bool:
        """Whether an output is a reference to a variable, which its readers read when they run."""
        signature = self.signature(port.node)
        return signature is not None and signature.output(port.output).is_ref

    def outputs(self, name: str) -> int:
        """How many outputs a node has."""
        signature = self.signature(name)
        return (
            len(signature.outputs)
            if signature is not None
            else 1 + max((c.output for c in self.view.consumers(name)), default=0)
        )

    def is_stateful(self, name: str) -> bool:
        """Whether a node's op stores or changes state."""
        definition = self.op_defs.get(self.view.nodes[name].op)
        return definition is None or definition.is_stateful

    @once
    def state(self) -> State:
        """The writes of the graph."""
        return State(
            self.meta_graph,
            self.view,
            self.op_defs.get,
            writing=self._writing,
            library=self.library.keys(),
        )

    @once
    def frames(self) -> Frames:
        """The while loops that contain each node."""
        return frames(self.view)

    @once
    def conditions(self) -> Dict[str, Conditions]:
        """The sides of predicates that a node requires."""
        return conditions(self.view)


class Sides:
    """An original and a converted body.

    Attributes:
        before: the original.
        after: the converted one.
        added: names of nodes that only the converted graph has.
        more_arguments: those that are arguments of a function.
        faults: the faults found.
    """

    def __init__(self, before: Side, after: Side):
        self.before, self.after = before, after
        self.added: Set[str] = {name for name in after.view.nodes if name not in before.view.nodes}
        self.more_arguments: Set[str] = {name for name in after.arguments if name in self.added}
        self.faults: List[Fault] = []

    def gone(self) -> Iterator[str]:
        """Nodes of the original that are missing in the converted graph."""
        yield from (name for name in self.before.view.nodes if name not in self.after.view.nodes)

    def fault(self, node: str, text: str) -> None:
        """Report a fault."""
        self.faults.append(Fault(node, text))

    @once
    def became_half(self) -> Dict[str, List[int]]:
        """The half-precision types of converted nodes that they don't have in the original.

        Nodes without any are left out.
        """
        found: Dict[str, List[int]] = {}
        for name, node in self.after.view.nodes.items():
            before = self.before.view.nodes.get(name, _NOTHING)
            for key, value in node.attr.items():
                if value.type in HALF and attribute(before, key).type != value.type:
                    found.setdefault(name, []).append(value.type)
        return found

    @once
    def lists_with_half(self) -> Dict[str, List[int]]:
        """The same of types in lists: of what Python code returns, for example."""
        found: Dict[str, List[int]] = {}
        for name, node in self.after.view.nodes.items():
            before = self.before.view.nodes.get(name, _NOTHING)
            for key, value in node.attr.items():
                pairs = zip(value.list.type, attribute(before, key).list.type)
                half = [new for new, old in pairs if new in HALF and new != old]
                if half:
                    found.setdefault(name, []).extend(half)
        return found

    def added_readers(self, port: Port) -> List[str]:
        """The added nodes that read an output, one for each input."""
        consumers = self.after.view.consumers(port.node)
        return [c.node for c in consumers if c.output == port.output and c.node in self.added]

    def is_cast(self, name: str, to: Container[int] = FLOATS) -> bool:
        """Whether a node is an added Cast of floating point to some types, rounding to nearest."""
        node = self.after.view.nodes[name]
        return (
            name in self.added
            and node.op == "Cast"
            and attribute(node, "SrcT").type in FLOATS
            and attribute(node, "DstT").type in to
            and not attribute(node, "Truncate").b
        )

    def is_moved(self, name: str) -> bool:
        """Whether a node only passes on the result of another one that replaces it."""
        return self.after.view.nodes[name].op == "Identity" != self.before.view.nodes[name].op

    def may_call(self, node: tf.NodeDef) -> bool:
        """Whether a node of the original may name functions.

        Its op is one, has one as an attribute, or is unknown.
        """
        definition = self.before.op_defs.get(node.op)
        return (
            definition is None
            or node.op in self.before.library
            or any(a.type in ("func", "list(func)") for a in definition.attr)
        )

    def are_calls(self, before: tf.NodeDef, after: tf.NodeDef) -> bool:
        """Whether two nodes are calls of functions by their ops."""
        return before.op in self.before.library and after.op in self.after.library


def keeps_names(converted: tf.MetaGraphDef) -> bool:
    """Whether the rewrite's mark says that all nodes of the original are there, by their names."""
    return (read_mark(converted) or {}).get("engine") == "rewrite"


def is_built_anew(converted: tf.MetaGraphDef) -> bool:
    """Whether the mark says that the recipe built a graph: missing nodes may have other names."""
    return (read_mark(converted) or {}).get("engine") == "recipe"


def answers(meta_graph: tf.MetaGraphDef) -> Set[str]:
    """The results of the graph: outputs of its signatures, and its losses."""
    names = [
        info.name
        for signature in meta_graph.signature_def.values()
        for info in signature.outputs.values()
    ]
    if tf.GraphKeys.LOSSES in meta_graph.collection_def:
        names += meta_graph.collection_def[tf.GraphKeys.LOSSES].node_list.value
    return {parse_input(name).node for name in names if name}


def fetched(meta_graph: tf.MetaGraphDef) -> Set[str]:
    """Its results, and all that a collection names: they may be fetched."""
    names = [
        name
        for collection in meta_graph.collection_def.values()
        for name in collection.node_list.value
    ]
    return answers(meta_graph) | {parse_input(name.lstrip("^")).node for name in names if name}
