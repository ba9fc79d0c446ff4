"""A graph of this process as a MetaGraphDef whose bytes depend on the graph alone: not on the process, its hash seed or its addresses."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf

from graphmp.graph.messages import parse, serialize
from graphmp.hooks import internals

_MESSAGES = {"config_proto": "tensorflow.ConfigProto"}  # attributes of type string that hold a message


def exported(graph: tf.Graph) -> tf.MetaGraphDef:
    """The MetaGraphDef of a graph, in canonical form.

    Raises:
        Exception: whatever TensorFlow raises on a graph that it can't export.
    """
    with graph.as_default():
        meta_graph = tf.train.export_meta_graph(graph=graph)
    make_canonical(meta_graph)
    return meta_graph


def make_canonical(meta_graph: tf.MetaGraphDef) -> None:
    """Puts in order what has no order of its own: maps inside serialized messages, and the functions of the library.

    TensorFlow serializes maps as they lie in memory: CondContextDef's external values (1.15.5, 2.21), the devices of the
    ConfigProto that a PartitionedCall carries (1.15.5). The library is a hash table.
    """
    for key, collection in meta_graph.collection_def.items():
        kind = internals.collection_message(key)
        if kind is not None:
            values = collection.bytes_list.value
            values[:] = [serialize(kind.FromString(data)) for data in values]
    library = meta_graph.graph_def.library
    for nodes in (meta_graph.graph_def.node, *(function.node_def for function in library.function)):
        _sort_messages_of_attributes(nodes)
    _sort(library.function, lambda function: str(function.signature.name))
    _sort(library.gradient, lambda gradient: str(gradient.function_name))


def _sort_messages_of_attributes(nodes: Any) -> None:
    for node in nodes:
        for name, kind in _MESSAGES.items():
            message = parse(kind, node.attr[name].s) if name in node.attr else None
            if message is not None:
                node.attr[name].s = serialize(message)


def _sort(messages: Any, key: Callable[[Any], str]) -> None:
    data = [serialize(message) for message in sorted(messages, key=key)]
    del messages[:]
    for each in data:
        messages.add().ParseFromString(each)
