"""One graph body in Model Explorer's own JSON form, the `Graph` of its graph_builder.py."""

from __future__ import annotations

import re
from typing import Any, Collection, Dict, Iterator, List, Mapping, NamedTuple, Set

import tensorflow.compat.v1 as tf

from graphmp.compare.review.reviewed import Reviewed
from graphmp.compare.values import attribute_text
from graphmp.graph.structure.view import GraphView
from graphmp.naming import in_body, of_function
from graphmp.wording import printable

ORIGINAL, CONVERTED = "original", "converted"
_MOST_CHARACTERS = 400  # of an attribute
_CONTROL = "control"  # the id of the output and the input of control edges
_NOTHING = "(nothing)"
_MARK = "*"  # prefix of attributes that aren't the node's; short, since the app truncates keys
_SPECIAL = re.compile(
    r"[;\\]"
    # in a namespace: the app only uses the part after a semicolon, and escapes by backslashes
)

Shown = Dict[str, str]


class Pane(NamedTuple):
    """A body of one side.

    Attributes:
        side: ORIGINAL or CONVERTED.
        function: the function's name; empty for the main graph.
        view: its nodes.
        ids: their ids, by name.
    """

    side: str
    function: str
    view: GraphView
    ids: Mapping[str, str]


def graph_id(side: str, function: str) -> str:
    """The id of a body's graph, unique among all files.

    The app can't distinguish graphs with equal ids.
    """
    return "%s %s" % (side, of_function(function) if function else "main")


def notes(diff: Reviewed) -> Dict[str, List[Shown]]:
    """The changes of each node, by path, as attributes to show."""
    result: Dict[str, List[Shown]] = {}
    for change in diff.changes:
        before, after = [
            _NOTHING if value is None else value for value in (change.before, change.after)
        ]
        why = ": ".join(filter(None, (change.kind, change.reason)))
        text = "%s -> %s%s" % (before, after, "; " + why if why else "")
        result.setdefault(change.path, []).append(
            _shown(" ".join(filter(None, (_MARK, change.category, change.part))), text)
        )
    for kept in diff.kept:
        result.setdefault(in_body(kept.body, kept.node), []).append(
            _shown(_MARK + " float32", "%s: %s" % (kept.kind, kept.reason))
        )
    return result


def graph(
    pane: Pane, functions: Collection[str], shown: Mapping[str, List[Shown]]
) -> Dict[str, Any]:
    """The whole body.

    Args:
        pane: the body.
        functions: the names of all functions with a graph of their own.
        shown: further attributes of a node to show, by its id.
    """
    scopes = _scopes(pane.view.nodes)
    return {
        "id": graph_id(pane.side, pane.function),
        "nodes": [
            _node(pane, node, scopes, functions, shown.get(pane.ids[node.name], []))
            for node in pane.view.nodes.values()
        ],
        "nodeLabelsToHide": [],  # by default the app hides constants and reads of variables
    }


def _node(
    pane: Pane, node: tf.NodeDef, scopes: Set[str], functions: Collection[str], shown: List[Shown]
) -> Dict[str, Any]:
    result = {
        "id": pane.ids[node.name],
        "label": printable(node.op),
        "namespace": _SPECIAL.sub("_", node.name if node.name in scopes else _scope(node.name)),
        "attrs": shown + list(_attributes(node)),
        "incomingEdges": list(_edges(pane, node.name)),
        "subgraphIds": [
            graph_id(pane.side, name) for name in sorted(set(_called(node)) & set(functions))
        ],
    }
    if pane.view.controls(node.name):
        result["inputsMetadata"] = [
            {"id": _CONTROL, "attrs": [{"key": "__tensor_tag", "value": _CONTROL}]}
        ]
    return result


def _scopes(names: Collection[str]) -> Set[str]:
    """The scopes of nodes, including outer scopes."""
    scopes: Set[str] = set()
    for name in names:
        scope = _scope(name)
        while scope and scope not in scopes:
            scopes.add(scope)
            scope = _scope(scope)
    return scopes


def _scope(name: str) -> str:
    return name.rpartition("/")[0]


def _attributes(node: tf.NodeDef) -> Iterator[Shown]:
    yield _shown("name", node.name)
    if node.device:
        yield _shown("device", node.device)
    for name, value in sorted(node.attr.items()):
        yield _shown(name, attribute_text(value))


def _edges(pane: Pane, name: str) -> Iterator[Dict[str, str]]:
    for slot, port in enumerate(pane.view.inputs(name)):
        yield {
            "sourceNodeId": pane.ids[port.node],
            "sourceNodeOutputId": str(port.output),
            "targetNodeInputId": str(slot),
        }
    for control in dict.fromkeys(pane.view.controls(name)):
        yield {
            "sourceNodeId": pane.ids[control],
            "sourceNodeOutputId": _CONTROL,
            "targetNodeInputId": _CONTROL,
        }


def _called(node: tf.NodeDef) -> Iterator[str]:
    """The names of possible functions that a node calls: its op, and its attributes."""
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        for function in value.list.func:
            yield function.name


def _shown(key: str, value: str) -> Shown:
    return {
        "key": printable(key),
        "value": printable(value[:_MOST_CHARACTERS]) + "..." * (len(value) > _MOST_CHARACTERS),
    }
