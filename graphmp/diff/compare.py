"""Compares two graphs: nodes by name, never by position, and what a MetaGraphDef holds besides nodes.

The comparison looks at the graphs alone; a report only adds the reasons.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.diff import model
from graphmp.diff.model import CATEGORIES, Change, Diff
from graphmp.diff.nodes import node_changes
from graphmp.diff.text import plural
from graphmp.diff.values import node_text
from graphmp.graph.view import GraphView

Reasons = Dict[str, List[Tuple[str, str]]]


def compare(
    before: tf.MetaGraphDef, after: tf.MetaGraphDef, report: Optional[Dict[str, Any]] = None, names: Tuple[str, str] = ("original", "converted")
) -> Diff:
    """All differences between two graphs.

    Args:
        before: the original MetaGraphDef.
        after: the converted MetaGraphDef.
        report: report.json as a dict; its `changes` say why.
        names: what to call the two.

    Raises:
        GraphmpError: GMP008 if a node name is not unique, or an input names a node that isn't there.
    """
    changes = [*_graph_changes(GraphView(before.graph_def), GraphView(after.graph_def)), *_meta_graph_changes(before, after)]
    order = {category: index for index, category in enumerate(CATEGORIES)}
    changes.sort(key=lambda change: (order[change.category], change.node))  # stable: attributes and slots stay in order
    found = Diff(tuple(changes), False, names)
    return found if report is None else explained(found, report)


def explained(diff: Diff, report: Dict[str, Any]) -> Diff:
    """The same differences, joined with the reasons of a report."""
    reasons = _reasons(report)
    joined = (replace(change, reason=_reason(change, reasons)) if change.node in reasons else change for change in diff.changes)
    return Diff(tuple(joined), True, diff.names)


def _graph_changes(before: GraphView, after: GraphView) -> Iterator[Change]:
    for name, node in before.nodes.items():
        other = after.nodes.get(name)
        if other is None:
            yield Change(name, model.REMOVED, node_text(node), None)
        elif node.SerializeToString(deterministic=True) != other.SerializeToString(deterministic=True):
            yield from node_changes(name, before, after)
    for name, node in after.nodes.items():
        if name not in before.nodes:
            yield Change(name, model.ADDED, None, node_text(node))


class _Part(NamedTuple):
    """A part of a MetaGraphDef that is no node, and how to speak of its size."""

    data: bytes
    text: str


def _meta_graph_changes(before: tf.MetaGraphDef, after: tf.MetaGraphDef) -> Iterator[Change]:
    old, new = dict(_parts(before)), dict(_parts(after))
    for name in sorted(set(old) | set(new)):
        if old.get(name) != new.get(name):
            sizes = [parts[name].text if name in parts else None for parts in (old, new)]
            yield Change(name, model.META_GRAPH, sizes[0], sizes[1])


def _parts(meta_graph: tf.MetaGraphDef) -> Iterator[Tuple[str, _Part]]:
    """Fields by name, entries of maps and functions by `field/key`. The order of a library's functions means nothing."""
    for field, value in meta_graph.ListFields() + meta_graph.graph_def.ListFields():
        if field.name == "library":
            yield from (("library/" + function.signature.name, _function(function)) for function in value.function)
            yield from (
                ("library." + rest.name, _sized(b"".join(sorted(map(_bytes, rows))))) for rest, rows in value.ListFields() if rest.name != "function"
            )
        elif field.name in ("collection_def", "signature_def"):
            yield from (("%s/%s" % (field.name, key), _sized(_bytes(value[key]))) for key in value)
        elif field.name == "asset_file_def":
            yield field.name, _sized(b"".join(map(_bytes, value)))
        elif field.name not in ("graph_def", "node"):
            yield field.name, _sized(_bytes(value)) if field.message_type else _Part(b"", str(value))


def _sized(data: bytes) -> _Part:
    return _Part(data, plural(len(data), "byte"))


def _function(function: Any) -> _Part:
    """A function's nodes have names, so that their order means nothing either."""
    ordered = type(function)()
    ordered.CopyFrom(function)
    del ordered.node_def[:]
    ordered.node_def.extend(sorted(function.node_def, key=lambda node: node.name))
    return _Part(_bytes(ordered), plural(len(function.node_def), "node"))


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _reasons(report: Optional[Dict[str, Any]]) -> Reasons:
    """What the report says, by node: pairs of change and reason."""
    reasons: Reasons = {}
    for row in (report or {}).get("changes") or ():
        reasons.setdefault(row["node"], []).append((row.get("change") or "", row.get("reason") or ""))
    return reasons


def _reason(change: Change, reasons: Reasons) -> str:
    """The reasons given for a change of this category at this node; where none names the category, all of the node's."""
    rows = reasons.get(change.node, [])
    same = [reason for what, reason in rows if what.split(":")[0] == change.category]
    return "; ".join(dict.fromkeys(filter(None, same or [reason for _, reason in rows])))
