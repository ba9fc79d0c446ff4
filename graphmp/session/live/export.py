"""Exporting a live graph without its conversions, and without nodes that need none."""

from __future__ import annotations

from typing import AbstractSet, Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.cloning import remove_copies
from graphmp.graph.io.messages import parse, serialize
from graphmp.graph.structure.view import parse_input
from graphmp.naming import SCOPE
from graphmp.session.live.watch import WATCH_SCOPE

_WATCHES = "%s/%s/" % (SCOPE, WATCH_SCOPE)
_FIELD = {  # of each kind of message in a collection: the field that names its node
    "while_context": ("tensorflow.WhileContextDef", "pivot_name"),
    "cond_context": ("tensorflow.CondContextDef", "pivot_name"),
    "queue_runners": ("tensorflow.QueueRunnerDef", "queue_name"),
    "savers": ("tensorflow.SaverDef", "filename_tensor_name"),
}
_VARIABLE = ("tensorflow.VariableDef", "variable_name")


def exported(
    graph: Any, added: AbstractSet[str], wanted: Optional[AbstractSet[str]] = None
) -> tf.MetaGraphDef:
    """The MetaGraphDef of a live graph without the nodes and functions of conversions.

    Args:
        graph: the tf.Graph.
        added: names of the nodes that conversions added.
        wanted: names of the other nodes to export, with all that they depend on; None for all.
    """
    with graph.as_default():
        graph_def = graph.as_graph_def(add_shapes=True)
        nodes = [
            node
            for node in graph_def.node
            if node.name not in added
            and not node.name.startswith(_WATCHES)
            and (wanted is None or node.name in wanted)
        ]
        del graph_def.node[:]
        graph_def.node.extend(nodes)
        remove_copies(graph_def.library)
        result = tf.train.export_meta_graph(graph=graph, graph_def=graph_def)
    if wanted is not None:
        _trim(result)
    return result


def _trim(meta_graph: tf.MetaGraphDef) -> None:
    """Remove from the collections what names nodes that the graph lacks."""
    present = {node.name for node in meta_graph.graph_def.node}
    for key, collection in meta_graph.collection_def.items():
        listed = collection.node_list.value
        if listed:
            listed[:] = [name for name in listed if _is_in(present, name)]
        entries = collection.bytes_list.value
        if entries:
            kept = [_trimmed(*_FIELD.get(key, _VARIABLE), entry, present) for entry in entries]
            entries[:] = [entry for entry in kept if entry is not None]


def _trimmed(kind: str, field: str, data: bytes, present: AbstractSet[str]) -> Optional[bytes]:
    """A collection's entry, a context without the missing nodes; None if its node is missing."""
    message = parse(kind, data)
    name = getattr(message, field, "")
    if not name:
        return data
    if not _is_in(present, name):
        return None
    values = getattr(message, "values_def", None)
    if values is None or all(_is_in(present, value) for value in values.values):
        return data
    values.values[:] = [value for value in values.values if _is_in(present, value)]
    return serialize(message)


def _is_in(present: AbstractSet[str], name: str) -> bool:
    return parse_input(name).node in present
