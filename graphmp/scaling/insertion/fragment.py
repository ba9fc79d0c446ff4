"""Parts of a graph that TensorFlow builds in a scratch graph, for insertion into a GraphDef.

Both engines thus share `loss_scale/`.
"""

from __future__ import annotations

import contextlib
from typing import AbstractSet, Any, Dict, Iterable, Iterator, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.edit.building import v1_control_flow
from graphmp.graph.edit.editing import Editor
from graphmp.graph.state.state import described
from graphmp.graph.structure.view import CONTROL, Port, parse_input
from graphmp.graph.structure.walk import reached

# Stateful by definition, or with a reference as input, though they only read.
_READS = frozenset(("IsVariableInitialized", "ReadVariableOp", "VarIsInitializedOp"))


class Fragment:
    """A part under construction; placeholders represent outputs of the target graph."""

    def __init__(self) -> None:
        """Starts an empty part."""
        self._graph = tf.Graph()
        self._stands_for: Dict[str, Port] = {}
        self._inputs: Dict[Tuple[Port, int], Any] = {}
        self._wanted: Set[str] = set()

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Make TensorFlow's functions add to the part, without deprecation warnings on 1.15.5."""
        verbosity = tf.logging.get_verbosity()
        tf.logging.set_verbosity(tf.logging.ERROR)
        try:
            with self._graph.as_default(), v1_control_flow():
                yield
        finally:
            tf.logging.set_verbosity(verbosity)

    def input(self, port: Port, dtype: int) -> Any:
        """A tensor that represents an output of the graph."""
        key = (port, dtype)
        if key not in self._inputs:
            with tf.name_scope(None), tf.device(None):
                tensor = tf.placeholder(
                    tf.as_dtype(dtype), name="stands_for_%d" % len(self._inputs)
                )
            self._inputs[key] = tensor
            self._stands_for[tensor.op.name] = port
        return self._inputs[key]

    def port(self, tensor: Any) -> Port:
        """The future output of a tensor in the graph."""
        name = self.name(tensor)
        return self._stands_for.get(name) or Port(name, tensor.value_index)

    def name(self, tensor: Any) -> str:
        """The name of a tensor's op, which the graph will have."""
        self._wanted.add(tensor.op.name)
        return tensor.op.name

    def splice(
        self, editor: Editor, meta_graph: tf.MetaGraphDef, collections: Dict[str, bool]
    ) -> None:
        """Insert the part into a graph.

        Args:
            editor: edits the graph.
            meta_graph: its MetaGraphDef, whose collections get the part's variables.
            collections: the collections to extend, and whether to create missing ones.

        Raises:
            GraphmpError: GMP022 if a name is taken.
        """
        with self._graph.as_default():
            made = tf.train.export_meta_graph(strip_default_attrs=True)
        needed = self._needed(made) - self._stands_for.keys()
        for node in made.graph_def.node:
            if node.name in needed:
                if node.name in editor.nodes:
                    raise GraphmpError(
                        "GMP022",
                        "the graph has a node %s, as graphmp's conversions do; convert the original"
                        " again" % node.name,
                    )
                editor.put(self._rewired(node))
        for key, make in collections.items():
            if key in made.collection_def and (make or key in meta_graph.collection_def):
                meta_graph.collection_def[key].MergeFrom(made.collection_def[key])

    def _needed(self, made: tf.MetaGraphDef) -> AbstractSet[str]:
        """The nodes that something reads; TensorFlow's conditionals make a few others."""
        by_name = {node.name: node for node in made.graph_def.node}

        def before(name: str) -> Iterable[str]:
            node = by_name[name]
            yield from (parse_input(text).node for text in node.input)
            yield from map(_colocated, _classes(node))

        effects = (name for name, node in by_name.items() if self._has_effects(node))
        collected = (
            parse_input(text).node
            for collection in made.collection_def.values()
            for text in collection.node_list.value
        )
        return reached(self._wanted.union(effects, described(made), collected), before)

    def _has_effects(self, node: tf.NodeDef) -> bool:
        op = self._graph.get_operation_by_name(node.name)
        writes = op.op_def.is_stateful or any(given.is_ref for given in op.op_def.input_arg)
        return not op.outputs or (writes and node.op not in _READS)

    def _rewired(self, node: tf.NodeDef) -> tf.NodeDef:
        """The node with the graph's outputs in place of placeholders.

        Nothing waits for a placeholder, or is colocated with one.
        """
        ports = []
        for text in node.input:
            port = parse_input(text)
            if port.node not in self._stands_for:
                ports.append(text)
            elif port.output != CONTROL:
                ports.append(str(self._stands_for[port.node]))
        node.input[:] = ports
        if "_class" in node.attr:
            beside = [text for text in _classes(node) if _colocated(text) not in self._stands_for]
            node.attr["_class"].list.s[:] = beside
            if not beside:
                del node.attr["_class"]
        return node


def _classes(node: tf.NodeDef) -> Sequence[bytes]:
    return node.attr["_class"].list.s if "_class" in node.attr else ()


def _colocated(text: bytes) -> str:
    return text.decode().replace("loc:@", "", 1)
