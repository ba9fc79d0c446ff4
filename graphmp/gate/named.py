"""Collections and control flow contexts: the nodes that they name must exist."""

from __future__ import annotations

from typing import Any, Iterator, Optional

from google.protobuf.message import DecodeError

from graphmp.gate.edges import Outputs
from graphmp.gate.nodes import RE_EXPORT, refused, shown
from graphmp.graph.io.strict import parse_strictly
from graphmp.graph.structure.view import CONTROL, GraphView, parse_input
from graphmp.tf_hooks.internals import collection_message

# The fields that name nodes, by the message of a collection.
_FIELDS = {
    "CondContextDef": ("pred_name", "pivot_name"),
    "VariableDef": ("variable_name", "initializer_name", "snapshot_name"),
    "WhileContextDef": ("pivot_name", "pivot_for_pred_name", "pivot_for_body_name"),
}
_CURE = "remove the collection, by graph.clear_collection, and " + RE_EXPORT


def check_collections(meta_graph: Any, view: GraphView, outputs: Outputs) -> None:
    """Raise GMP008 for a collection that names a node which doesn't exist."""
    for key in sorted(meta_graph.collection_def):
        collection = meta_graph.collection_def[key]
        for text in (*collection.node_list.value, *_names(key, collection)):
            port = parse_input(text)
            known = port.node in view.nodes
            if not known or (port.output != CONTROL and not outputs_fit(outputs, text, port)):
                found = "%s, which is not in the graph" % shown(text)
                raise refused("collection %s" % shown(key), found, _CURE)


def outputs_fit(outputs: Outputs, text: str, port: Any) -> bool:
    """Whether a name is a node's, or that of an output which it has."""
    return ":" not in text or outputs.has(port.node, port.output)


def _names(key: str, collection: Any) -> Iterator[str]:
    kind = collection_message(key)
    fields = _FIELDS.get(kind.DESCRIPTOR.name) if kind is not None else None
    for data in collection.bytes_list.value if fields else ():
        message = _parsed(kind, data)
        if message is None:
            name = kind.DESCRIPTOR.name
            raise refused("collection %s" % shown(key), "bytes that are no %s" % name, _CURE)
        waiting = [message]
        while waiting:
            each = waiting.pop()
            for field in _FIELDS[each.DESCRIPTOR.name]:
                if getattr(each, field):
                    yield getattr(each, field)
            for nested in getattr(each, "nested_contexts", ()):
                if not nested.WhichOneof("ctxt"):
                    found = "a ControlFlowContextDef without a context"
                    raise refused("collection %s" % shown(key), found, _CURE)
                waiting.append(getattr(nested, nested.WhichOneof("ctxt")))


def _parsed(kind: Any, data: bytes) -> Optional[Any]:
    try:
        message = kind()
        parse_strictly(data, message)
    except DecodeError:
        return None
    return message
