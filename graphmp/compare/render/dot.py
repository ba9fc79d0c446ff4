"""The neighbourhood of one node in both graphs as Graphviz DOT: `dot -Tsvg`."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.compare import colours
from graphmp.compare.changes import BodyPair, Change
from graphmp.compare.neighbourhood import neighbourhood
from graphmp.compare.review.reviewed import Reviewed
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import GraphView
from graphmp.naming import in_body, places
from graphmp.policy.dtypes import HALF, dtype_text
from graphmp.wording import nearest, printable

_DTYPES = ("T", "Ta", "dtype")  # the dtype attribute of a node, the first that it has
_HALF_BORDER = "#1565c0"


class _DotSide(NamedTuple):
    """One graph for rendering.

    Its names for the node asked about (None if missing) and for the nodes shown, and the converted
    names of all renamed ones.
    """

    key: str
    label: str
    view: GraphView
    node: Optional[str]
    shown: List[str]
    names: Dict[str, str]


def render(diff: Reviewed, node: str, depth: int = 1, most: int = 150) -> str:
    """DOT text: a node's neighbourhood in two clusters, inputs left.

    Casts are ellipses, half-precision nodes have a blue border, control edges are dashed, the node
    itself is bold, and the colour is that of the most important change's category. A graph without
    the node shows the rest of the neighbourhood.

    Args:
        diff: the comparison, with its `bodies`.
        node: `x`, or `library/f/x` in function f; a renamed node by either name.
        depth: the radius in edges.
        most: the maximum number of nodes in each graph.

    Raises:
        GraphmpError: GMP002 if neither graph has the node.
    """
    body, before, after = _find(diff, node)
    changes = colours.leading(diff)
    lines = [
        "digraph {",
        "  rankdir=LR;",
        "  node [shape=box, style=filled, fillcolor=%s, fontsize=10];" % _quoted(colours.UNCHANGED),
    ]
    for side in reversed(
        _sides(diff.names, body, before, after, depth, most)
    ):  # Graphviz draws the last cluster on top
        lines += [
            "  subgraph cluster_%s {" % side.key,
            "    label=%s;" % _quoted(_title(side, most)),
        ]
        lines += ["    " + line for line in _statements(side, body.name, changes)]
        lines.append("  }")
    return "\n".join(lines + ["}", ""])


def _find(diff: Reviewed, path: str) -> Tuple[BodyPair, Optional[str], Optional[str]]:
    """The body of the node, and its names in both graphs."""
    bodies = {body.name: body for body in diff.bodies}
    for place, name in places(path, bodies):
        body = bodies[place]
        if name not in body.before.nodes and name not in body.after.nodes:
            continue
        formerly = {new: old for old, new in body.renamed.items()}
        before, after = formerly.get(name, name), body.renamed.get(name, name)
        return (
            body,
            before if before in body.before.nodes else None,
            after if after in body.after.nodes else None,
        )
    raise GraphmpError(
        "GMP002", "node %s: neither graph has it%s" % (printable(path), _close(diff, path))
    )


def _close(diff: Reviewed, path: str) -> str:
    """The names most similar to a wrong one, in words."""
    close = nearest(
        path,
        (
            in_body(body.name, name)
            for body in diff.bodies
            for view in (body.after, body.before)
            for name in view.nodes
        ),
    )
    return (
        "; names like it are %s" % ", ".join(map(printable, close))
        if close
        else ", and no name is like it"
    )


def _sides(
    names: Tuple[str, str],
    body: BodyPair,
    before: Optional[str],
    after: Optional[str],
    depth: int,
    most: int,
) -> List[_DotSide]:
    old = list(neighbourhood(body.before, before, depth, most)) if before is not None else []
    new = list(neighbourhood(body.after, after, depth, most)) if after is not None else []
    formerly = {new_name: old_name for old_name, new_name in body.renamed.items()}
    if before is None:
        old = [
            name for name in (formerly.get(name, name) for name in new) if name in body.before.nodes
        ]
    if after is None:
        new = [
            name
            for name in (body.renamed.get(name, name) for name in old)
            if name in body.after.nodes
        ]
    return [
        _DotSide("original", names[0], body.before, before, old, dict(body.renamed)),
        _DotSide("converted", names[1], body.after, after, new, {}),
    ]


def _title(side: _DotSide, most: int) -> str:
    if side.node is None:
        return side.label + ": no such node"
    return side.label + (": the nearest %d nodes" % most if len(side.shown) >= most else "")


def _statements(side: _DotSide, body: str, changes: Dict[str, Change]) -> Iterator[str]:
    """A statement for each node, then for each edge between two of them.

    Nodes are numbered, so that no name can break the syntax.
    """
    numbers = {name: "%s_%d" % (side.key, index) for index, name in enumerate(side.shown)}
    if not numbers:
        yield '%s_none [label="nothing", shape=plaintext];' % side.key
    for name, number in numbers.items():
        change = changes.get(in_body(body, side.names.get(name, name)))
        yield "%s [%s];" % (
            number,
            ", ".join(_attributes(side.view.nodes[name], name == side.node, change)),
        )
    for name, number in numbers.items():
        for port in side.view.inputs(name):
            if port.node in numbers:
                yield "%s -> %s%s;" % (
                    numbers[port.node],
                    number,
                    " [label=%s]" % _quoted(str(port.output)) if port.output else "",
                )
        for control in dict.fromkeys(side.view.controls(name)):
            if control in numbers:
                yield "%s -> %s [style=dashed];" % (numbers[control], number)


def _attributes(node: tf.NodeDef, asked: bool, change: Optional[Change]) -> Iterator[str]:
    dtypes = _dtypes(node)
    yield "label=%s" % _quoted(
        node.name, " ".join([node.op, " -> ".join(map(dtype_text, dtypes))]).strip()
    )
    if node.op == "Cast":
        yield "shape=ellipse"
    if dtypes and dtypes[-1] in HALF:
        yield "color=%s" % _quoted(_HALF_BORDER)
    if asked:
        yield 'style="filled,bold", penwidth=3, fontname="Times-Bold"'
    if change is not None:
        yield "fillcolor=%s, tooltip=%s" % (
            _quoted(colours.CATEGORY[change.category]),
            _quoted(change.category, change.reason),
        )


def _dtypes(node: tf.NodeDef) -> List[int]:
    """The compute dtype of a node, or both dtypes of a cast."""
    names = (
        ("SrcT", "DstT")
        if node.op == "Cast"
        else tuple(name for name in _DTYPES if name in node.attr)[:1]
    )
    return [node.attr[name].type for name in names if name in node.attr and node.attr[name].type]


def _quoted(*lines: str) -> str:
    """A DOT string of lines, with Graphviz's escapes and HTML entities escaped."""
    return '"%s"' % "\\n".join(
        printable(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
        for line in lines
        if line
    )
