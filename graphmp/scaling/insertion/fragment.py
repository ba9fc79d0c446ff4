"""Parts of a graph that TensorFlow builds in a scratch graph, for insertion into a GraphDef.

Both engines thus share `loss_scale/`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.edit.building import v1_control_flow
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import CONTROL, Port, parse_input


class Fragment:
    """A part under construction; placeholders represent outputs of the target graph."""

    def __init__(self) -> None:
        """Starts an empty part."""
        self._graph = tf.Graph()
        self._stands_for: Dict[str, Port] = {}
        self._inputs: Dict[Tuple[Port, int], Any] = {}

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
        return self._stands_for.get(tensor.op.name) or Port(tensor.op.name, tensor.value_index)

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
        for node in made.graph_def.node:
            if node.name not in self._stands_for:
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
            beside = [
                name
                for name in node.attr["_class"].list.s
                if name.decode().replace("loc:@", "", 1) not in self._stands_for
            ]
            node.attr["_class"].list.s[:] = beside
            if not beside:
                del node.attr["_class"]
        return node
