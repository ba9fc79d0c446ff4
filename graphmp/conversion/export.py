"""A graph of this process as a canonical MetaGraphDef: its bytes depend on the graph alone.

They don't depend on the process, its hash seed or its addresses.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import parse, serialize
from graphmp.graph.structure.view import parse_input
from graphmp.tf_hooks import internals

_MESSAGES = {
    "config_proto": "tensorflow.ConfigProto"
}  # attributes of type string that hold a message
_UUID = rb"[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"
_RANDOM = re.compile(rb"(_temp_|hash_table_|gru_|lstm_|ctc_loss_)(" + _UUID + rb")")


def exported(graph: tf.Graph) -> tf.MetaGraphDef:
    """The MetaGraphDef of a graph, in canonical form.

    Raises:
        Exception: any error that TensorFlow raises on a graph that it can't export.
    """
    with graph.as_default():
        meta_graph = tf.train.export_meta_graph(graph=graph)
    _drop_ops_of_functions(meta_graph)
    make_canonical(meta_graph)
    return meta_graph


def _drop_ops_of_functions(meta_graph: tf.MetaGraphDef) -> None:
    """Remove from collections what isn't in the graph, which no TensorFlow imports.

    A train op that is made in a branch or a loop of TensorFlow 2 is in the graph of a function.
    """
    names = {node.name for node in meta_graph.graph_def.node}
    for key in list(meta_graph.collection_def):
        listed = meta_graph.collection_def[key].node_list.value
        kept = [text for text in listed if parse_input(text).node in names]
        if listed and not kept:
            del meta_graph.collection_def[key]
        elif len(kept) < len(listed):
            listed[:] = kept


def make_canonical(meta_graph: tf.MetaGraphDef) -> None:
    """Sort what has no order, and replace random names by fixed ones.

    Unordered are the library of functions, a hash table, and maps inside serialized messages, which
    TensorFlow writes in the order of its memory: CondContextDef's external values (1.15.5, 2.21),
    the devices of the ConfigProto that a PartitionedCall carries (1.15.5).
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
    _fix_random_names(meta_graph)


def _fix_random_names(meta_graph: tf.MetaGraphDef) -> None:
    """Replace the UUIDs that TensorFlow draws in each process by hashes of their first occurrence.

    They are the same in an original and its conversion. A sharded Saver, as Estimator and
    MonitoredTrainingSession make it, has a UUID in the folder of its parts (1.15.5); the shared
    names of hash tables have one, and the functions of recurrent Keras layers (1.15.5, 2.21).
    """
    made: Dict[bytes, bytes] = {}
    library = meta_graph.graph_def.library
    units = [(node.name, node) for node in meta_graph.graph_def.node]
    units += [(function.signature.name, function) for function in library.function]
    for name, unit in units:
        data = serialize(unit)
        for match in _RANDOM.finditer(data):
            made.setdefault(match.group(2), _like(match.group(2), "%s %d" % (name, len(made))))
        if _RANDOM.search(data):
            unit.ParseFromString(
                _RANDOM.sub(lambda match: match.group(1) + made[match.group(2)], data)
            )


def _like(uuid: bytes, seed: str) -> bytes:
    """A hash with dashes like a UUID: fields of a serialized message keep their lengths."""
    digits = iter(hashlib.sha256(seed.encode("utf-8")).hexdigest())
    return "".join(
        "-" if character == "-" else next(digits) for character in uuid.decode("ascii")
    ).encode("ascii")


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
