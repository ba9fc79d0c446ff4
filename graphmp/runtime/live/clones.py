"""Putting clones of converted nodes into the live graph, wired to the nodes that they share with the original."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.building import SCOPE
from graphmp.graph.calls import functions_named
from graphmp.graph.frames import ENTERS
from graphmp.graph.view import CONTROL, GraphView, parse_input
from graphmp.hooks.internals import opened

_FUNCTION_SUFFIX = "_graphmp"


class Clones:
    """The clones of one conversion.

    Attributes:
        names: original name to the clone's.
        helpers: names of the nodes added between what is shared and the clones.
        prefix: the scope of the clones.
    """

    def __init__(
        self, graph: Any, after: GraphView, before: tf.GraphDef, wanted: AbstractSet[str], prefix: str = "", earlier: Optional[Dict[str, str]] = None
    ):
        """Decides on names; nothing is added yet.

        Args:
            graph: the live tf.Graph.
            after: the graph to clone from: the converted one.
            before: the original.
            wanted: names of the nodes to clone.
            prefix: the scope of the clones; a free one unless given.
            earlier: original name to clone's, of the clones that these read in the place of their originals, in the originals' dtypes.
        """
        self._graph = graph
        self._after = after
        self._before = before
        self._originals = {node.name for node in before.node}
        self._stand_ins = earlier or {}
        taken = set() if prefix else {op.name for op in graph.get_operations()}
        self.prefix = prefix or _free_prefix(taken)
        self.names: Dict[str, str] = {name: self._named(name, taken) for name in after.nodes if name in wanted}
        self.helpers: Set[str] = set()

    def add(self) -> None:
        """Imports the clones, outside of the caller's scopes, devices and control dependencies. A finalised graph is opened for that.

        Raises:
            ValueError: what TensorFlow's importer says of a graph that it refuses.
        """
        shared = self._shared_inputs()
        with opened(self._graph), self._graph.as_default(), tf.control_dependencies(None), tf.device(None), self._graph.name_scope(None):
            inputs = {text: self._tensor(text) for text in sorted(shared)}
            tf.import_graph_def(self._graph_def(), input_map=inputs, name="")
        self._keep_tracebacks()

    def _keep_tracebacks(self) -> None:
        """An error at a clone names the line of the user's that made the original (1.15.5; later versions keep tracebacks out of reach)."""
        for name, clone in self.names.items():
            original = self._graph.get_operation_by_name(name) if name in self._originals else None
            if original is not None and "_traceback" in getattr(original, "__dict__", ()):
                self._graph.get_operation_by_name(clone)._traceback = original._traceback

    def _named(self, name: str, taken: Set[str]) -> str:
        """A clone's name. The names of inserted nodes are part of the interface and stay where they are free."""
        return name if name.startswith(SCOPE + "/") and name not in taken else "%s/%s" % (self.prefix, name)

    def _shared_inputs(self) -> Set[str]:
        return {_spelled(text) for name in self.names for text in self._after.nodes[name].input if parse_input(text).node not in self.names}

    def _tensor(self, text: str) -> Any:
        """The live tensor that an input names. The importer takes control inputs as tensors: an op without outputs gets a constant behind it."""
        port = parse_input(text)
        op = self._graph.get_operation_by_name(self._stand_ins.get(port.node, port.node))
        if port.output != CONTROL:
            dtype = self._graph.get_operation_by_name(port.node).outputs[port.output].dtype
            tensor = op.outputs[port.output]
            return tensor if tensor.dtype == dtype else self._helper(tf.cast(tensor, dtype, name="%s/after/%s" % (SCOPE, op.name)))
        if op.outputs:
            return op.outputs[0]
        with tf.control_dependencies([op]):
            return self._helper(tf.constant(0, name="%s/after/%s" % (SCOPE, op.name)))

    def _helper(self, tensor: Any) -> Any:
        self.helpers.add(tensor.op.name)
        return tensor

    def _graph_def(self) -> tf.GraphDef:
        result = tf.GraphDef(versions=self._after.graph_def.versions)
        functions = _changed_functions(self._before, self._after.graph_def)
        for function in self._after.graph_def.library.function:
            if function.signature.name in functions:
                copy = result.library.function.add()
                copy.CopyFrom(function)
                copy.signature.name += _FUNCTION_SUFFIX
                for node in copy.node_def:
                    _rename_functions(node, functions)
        for name, clone in self.names.items():
            node = result.node.add()
            node.CopyFrom(self._after.nodes[name])
            node.name = clone
            node.input[:] = [self._input(text) for text in node.input]
            _rename_functions(node, functions)
            if node.op in ENTERS:
                node.attr["frame_name"].s = ("%s/" % self.prefix).encode("utf-8") + node.attr["frame_name"].s
            self._colocate(node)
        return result

    def _input(self, text: str) -> str:
        port = parse_input(text)
        clone = self.names.get(port.node)
        return _spelled(text) if clone is None else str(port._replace(node=clone))

    def _colocate(self, node: tf.NodeDef) -> None:
        """`_class` of a clone names its clone; beside a shared node it has that node's device."""
        if "_class" not in node.attr:
            return
        with_nodes = [text.decode("utf-8")[len("loc:@") :] for text in node.attr["_class"].list.s]
        del node.attr["_class"]
        for name in with_nodes:
            if name in self.names:
                node.attr["_class"].list.s.append(("loc:@" + self.names[name]).encode("utf-8"))
            elif not node.device and name in self._after.nodes:
                node.device = self._after.nodes[name].device


def _free_prefix(taken: Set[str]) -> str:
    """`graphmp/clones`, or with the first number that leaves all names free."""
    number, prefix = 0, "%s/clones" % SCOPE
    while any(name.startswith(prefix + "/") for name in taken):
        number += 1
        prefix = "%s/clones_%d" % (SCOPE, number)
    return prefix


def _spelled(text: str) -> str:
    """An input string with its output's number, as the importer's map of inputs has them."""
    port = parse_input(text)
    return text if port.output == CONTROL else "%s:%d" % port


def _changed_functions(before: tf.GraphDef, after: tf.GraphDef) -> Set[str]:
    """Functions whose bodies the conversion changed, and those that call them."""
    old = {function.signature.name: function for function in before.library.function}
    found = {f.signature.name for f in after.library.function if old.get(f.signature.name) != f}
    while True:
        more = {f.signature.name for f in after.library.function if any(found & set(functions_named(node)) for node in f.node_def)} - found
        if not more:
            return found
        found |= more


def _rename_functions(node: tf.NodeDef, functions: Set[str]) -> None:
    if node.op in functions:
        node.op += _FUNCTION_SUFFIX
    for attribute in node.attr.values():
        kinds = [attribute.func] if attribute.HasField("func") else list(attribute.list.func)
        for function in kinds:
            if function.name in functions:
                function.name += _FUNCTION_SUFFIX
