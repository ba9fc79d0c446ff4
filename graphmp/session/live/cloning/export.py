"""Exporting a live graph without its conversions, and without nodes that need none.

A script that asks for its graph (`as_graph_def`, a .meta, a summary writer, a frozen graph) gets it
so too: as the script built it. Any program trains on it, or converts it again. Files of earlier
versions of graphmp have a session's copies in them (`left_by_others`).
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, FrozenSet, Iterable, Iterator, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.cloning import remove_copies
from graphmp.graph.edit.mark import SESSION
from graphmp.graph.io.messages import parse, serialize
from graphmp.graph.state.live import ancestors, descendants
from graphmp.graph.structure.view import parse_input
from graphmp.graph.structure.walk import reached
from graphmp.naming import SCOPE, is_below_scope, is_clone
from graphmp.session.live.not_finite.watch import WATCH_SCOPE
from graphmp.tf_hooks.internals import whole_graph_def

_WATCHES = "%s/%s/" % (SCOPE, WATCH_SCOPE)
_Kind = Tuple[str, Tuple[str, ...]]
# Of each kind of message in a collection: the fields that name its nodes.
_FIELDS: Dict[str, _Kind] = {
    "while_context": ("tensorflow.WhileContextDef", ("pivot_name",)),
    "cond_context": ("tensorflow.CondContextDef", ("pivot_name",)),
    "queue_runners": ("tensorflow.QueueRunnerDef", ("queue_name",)),
    "savers": ("tensorflow.SaverDef", ("filename_tensor_name",)),
}
_VARIABLE: _Kind = (
    "tensorflow.VariableDef",
    ("variable_name", "initializer_name", "snapshot_name"),
)


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
        graph_def = without(whole_graph_def(graph, add_shapes=True), added, wanted)
        result = tf.train.export_meta_graph(graph=graph, graph_def=graph_def)
    result.collection_def.pop(SESSION, None)
    if wanted is not None:
        _trim(result)
    return result


def without(
    graph_def: tf.GraphDef, added: AbstractSet[str], wanted: Optional[AbstractSet[str]] = None
) -> tf.GraphDef:
    """A live graph's GraphDef, changed: without nodes and functions of conversions (`exported`)."""
    nodes = [
        node
        for node in graph_def.node
        if not _is_added(node.name, added) and (wanted is None or node.name in wanted)
    ]
    del graph_def.node[:]
    graph_def.node.extend(nodes)
    if not any(is_clone(node.name) for node in nodes):  # else they may call them
        remove_copies(graph_def.library)
    return graph_def


def as_built(graph: Any, graph_def: tf.GraphDef, added: AbstractSet[str]) -> tf.GraphDef:
    """A live graph's GraphDef without conversions, for its script.

    What the script's own nodes or collections have of them stays: a summary that it made of the
    loss scale, or a Saver of a later time, which saves the loss scale.

    Args:
        graph: the tf.Graph.
        graph_def: the GraphDef; it is changed.
        added: names of the nodes that conversions added, and of nodes that read them.
    """
    gone = {name for name in added if is_below_scope(name)}
    inputs = {node.name: [parse_input(text).node for text in node.input] for node in graph_def.node}
    used = [op.name for op in _collected(graph)]
    used += [
        other for name, others in inputs.items() if not _is_added(name, gone) for other in others
    ]
    kept = reached(used, lambda name: inputs.get(name, ()), lambda name: _is_added(name, gone))
    return without(graph_def, gone - kept)


def _collected(graph: Any) -> Iterator[Any]:
    """The ops that the collections of a tf.Graph name."""
    for key in graph.get_all_collection_keys():
        items = (getattr(item, "op", item) for item in graph.get_collection(key))
        yield from (op for op in items if isinstance(op, tf.Operation))


def left_by_others(graph: Any, trained: Iterable[Any]) -> FrozenSet[str]:
    """Names of the nodes that another process's conversion added, and of all that read them.

    None if what trains depends on them: then the imported graph itself was converted.

    Args:
        graph: the tf.Graph.
        trained: ops that train.
    """
    below = {op for op in graph.get_operations() if is_below_scope(op.name)}
    needed = ancestors(trained) if below else set()
    if not below.isdisjoint(needed):
        return frozenset()
    return frozenset(op.name for op in descendants(below - needed))


def _is_added(name: str, added: AbstractSet[str]) -> bool:
    return name in added or name.startswith(_WATCHES)


def _trim(meta_graph: tf.MetaGraphDef) -> None:
    """Remove from the collections what names nodes that the graph lacks."""
    present = {node.name for node in meta_graph.graph_def.node}
    for key, collection in meta_graph.collection_def.items():
        listed = collection.node_list.value
        if listed:
            listed[:] = [name for name in listed if _is_in(present, name)]
        entries = collection.bytes_list.value
        if entries:
            kept = [_trimmed(*_FIELDS.get(key, _VARIABLE), entry, present) for entry in entries]
            entries[:] = [entry for entry in kept if entry is not None]


def _trimmed(
    kind: str, fields: Iterable[str], data: bytes, present: AbstractSet[str]
) -> Optional[bytes]:
    """A collection's entry, a context without the missing nodes; None if its node is missing."""
    message = parse(kind, data)
    names = [getattr(message, field, "") for field in fields]
    if not all(_is_in(present, name) for name in names if name):
        return None
    if not names[0]:
        return data
    values = getattr(message, "values_def", None)
    if values is None or all(_is_in(present, value) for value in values.values):
        return data
    values.values[:] = [value for value in values.values if _is_in(present, value)]
    return serialize(message)


def _is_in(present: AbstractSet[str], name: str) -> bool:
    return parse_input(name).node in present
