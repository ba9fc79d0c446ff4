"""Inserting clones of converted nodes into the live graph, wired to the shared nodes."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, Mapping, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.cloning import cloned, with_output
from graphmp.graph.structure.view import CONTROL, GraphView, parse_input
from graphmp.naming import CLONES, SCOPE
from graphmp.tf_hooks.internals import outside


class Clones:
    """The clones of one conversion.

    Attributes:
        names: original name to the clone's.
        prefix: the scope of the clones.
    """

    def __init__(
        self,
        graph: Any,
        after: GraphView,
        before: tf.GraphDef,
        wanted: AbstractSet[str],
        prefix: str = "",
        earlier: Optional[Mapping[str, str]] = None,
        reused: Optional[Mapping[str, str]] = None,
        fetched: Callable[[Any], Any] = lambda tensor: None,
    ):
        """Choose names; nothing is added yet.

        Args:
            graph: the live tf.Graph.
            after: the graph to clone from: the converted one.
            before: the original.
            wanted: names of the nodes to clone.
            prefix: the scope of the clones; a free one unless given.
            earlier: original name to clone's, of earlier clones that these read instead of their
                originals, in the originals' dtypes.
            reused: the same, of clones that are what `after` has, dtypes included.
            fetched: the tensor to read in place of a tensor whose clone has a multiple of its
                value; else None.
        """
        self._graph = graph
        self._after = after
        self._before = before
        self._originals = {node.name for node in before.node}
        self._reused = reused or {}
        self._fetched = fetched
        self._stand_ins = {**(earlier or {}), **self._reused}
        taken = set() if prefix else {op.name for op in graph.get_operations()}
        self.prefix = prefix or _free_prefix(taken)
        self.names: Dict[str, str] = {
            name: self._named(name, taken) for name in after.nodes if name in wanted
        }
        self._helpers: Set[str] = set()

    @property
    def added(self) -> Set[str]:
        """Names of the nodes that `add` inserted.

        The clones, and nodes between them and shared nodes.
        """
        return set(self.names.values()) | self._helpers

    def add(self) -> None:
        """Import the clones, outside of the caller's scopes, devices and control dependencies.

        A finalised graph is opened for that.

        Raises:
            ValueError: TensorFlow's importer refuses the graph.
        """
        shared = self._shared_inputs()
        with outside(self._graph):
            inputs = {text: self._tensor(text) for text in sorted(shared)}
            tf.import_graph_def(
                cloned(self._after, self._before, self.names, self.prefix),
                input_map=inputs,
                name="",
            )
        self._keep_tracebacks()

    def _keep_tracebacks(self) -> None:
        """Let errors of a clone name the user's line that made the original (1.15.5).

        Later versions don't give access to tracebacks.
        """
        for name, clone in self.names.items():
            original = self._graph.get_operation_by_name(name) if name in self._originals else None
            if original is not None and "_traceback" in getattr(original, "__dict__", ()):
                self._graph.get_operation_by_name(clone)._traceback = original._traceback

    def _named(self, name: str, taken: Set[str]) -> str:
        """A clone's name.

        Names of inserted nodes are part of the interface and kept if they are free.
        """
        return (
            name
            if name.startswith(SCOPE + "/") and name not in taken
            else "%s/%s" % (self.prefix, name)
        )

    def _shared_inputs(self) -> Set[str]:
        return {
            with_output(text)
            for name in self.names
            for text in self._after.nodes[name].input
            if parse_input(text).node not in self.names
        }

    def _tensor(self, text: str) -> Any:
        """The live tensor that an input names.

        The importer takes control inputs as tensors: an op without outputs gets a constant after
        it.
        """
        port = parse_input(text)
        op = self._graph.get_operation_by_name(self._stand_ins.get(port.node, port.node))
        if port.output != CONTROL:
            if port.node in self._reused:
                return op.outputs[port.output]
            original = self._graph.get_operation_by_name(port.node).outputs[port.output]
            found, dtype = self._fetched(original), original.dtype
            tensor = op.outputs[port.output] if found is None else found
            return (
                tensor
                if tensor.dtype == dtype
                else self._helper(tf.cast(tensor, dtype, name="%s/after/%s" % (SCOPE, op.name)))
            )
        if op.outputs:
            return op.outputs[0]
        with tf.control_dependencies([op]):
            return self._helper(tf.constant(0, name="%s/after/%s" % (SCOPE, op.name)))

    def _helper(self, tensor: Any) -> Any:
        self._helpers.add(tensor.op.name)
        return tensor


def _free_prefix(taken: Set[str]) -> str:
    """`graphmp/clones`, if needed with the lowest number that makes all names free."""
    number, prefix = 0, "%s/%s" % (SCOPE, CLONES)
    while any(name.startswith(prefix + "/") for name in taken):
        number += 1
        prefix = "%s/%s_%d" % (SCOPE, CLONES, number)
    return prefix
