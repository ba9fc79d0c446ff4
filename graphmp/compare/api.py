"""`graphmp.diff` and `graphmp.Diff`: comparing two graphs, and the forms of the result.

Nodes are paired by name, then by structure, never by position. The comparison only uses the graphs;
a report adds the reasons (`graphmp.compare.explain`).
"""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.compare import categories
from graphmp.compare.apply import applied
from graphmp.compare.changes import BodyPair, Change
from graphmp.compare.claims import graph_claims
from graphmp.compare.comparing import bodies
from graphmp.compare.comparing.matching import Pairing, pair
from graphmp.compare.comparing.nodes import node_changes
from graphmp.compare.comparing.parts import function_changes, part_changes
from graphmp.compare.explain import explained
from graphmp.compare.render import dot, html, jsonform, markdown, model_explorer, text
from graphmp.compare.review.reviewed import Reviewed
from graphmp.compare.values import node_text
from graphmp.errors import GraphmpError
from graphmp.files import schemas
from graphmp.files.folder import write_files
from graphmp.files.reading import Path
from graphmp.files.single import write_atomic
from graphmp.gate.given import given_graph
from graphmp.graph.io.messages import serialize
from graphmp.graph.io.stored import Readable, StoredMetaGraph, stored
from graphmp.graph.structure.view import view_of
from graphmp.process_memory import collector_paused
from graphmp.verify import Proof
from graphmp.verify.prove import prove as proved


class Diff(Reviewed):
    """All differences between two graphs, and each form of them.

    See `Comparison` for attributes.
    """

    def apply(self, before: tf.MetaGraphDef) -> tf.MetaGraphDef:
        """The converted graph, made from the original by these changes.

        Nodes may be in another order.

        Args:
            before: the original, which isn't changed; a GraphDef counts as a MetaGraphDef.

        Raises:
            GraphmpError: GMP008 if no TensorFlow can run it, GMP002 if it is another graph than
                the one that was compared.
        """
        if not self._compared(before):
            before = given_graph(before, "Diff.apply")
        try:
            return applied(self.changes, before)
        except (KeyError, IndexError, ValueError, TypeError):
            raise GraphmpError(
                "GMP002", "Diff.apply: found another graph than the original of this diff"
            ) from None

    def _compared(self, graph: Any) -> bool:
        """Whether a graph is the original of the comparison, which has passed the gate."""
        is_whole = self.graphs is not None and isinstance(graph, tf.MetaGraphDef)
        return is_whole and serialize(graph) == self.graphs[0].data  # type: ignore[index]

    def to_text(self, expand: bool = False) -> str:
        """Plain text.

        The claims, then all changes, with repeated ones on one line unless `expand`.
        """
        return text.render(self, expand)

    def to_json(self) -> Dict[str, Any]:
        """A JSON value of schema `graphmp.diff/1`, all changes."""
        return jsonform.render(self)

    def to_markdown(self, expand: bool = False) -> str:
        """Markdown for a code review, short enough for a comment.

        Repeated changes are on one line unless `expand`.
        """
        return markdown.render(self, expand)

    def to_html(self, path: Optional[Path] = None) -> str:
        """A page in one file that loads nothing; also written to `path` if given.

        Raises:
            GraphmpError: GMP004 if `path` can't be written.
        """
        page = html.render(self)
        if path is not None:
            write_atomic(pathlib.Path(path), page.encode("utf-8"))
        return page

    def to_dot(self, node: str, depth: int = 2) -> str:
        """Graphviz DOT of one node's neighbourhood in both graphs.

        Args:
            node: `Change.path` of the node, by its name on either side.
            depth: the radius of the neighbourhood in edges.

        Raises:
            GraphmpError: GMP002 if neither graph has the node.
        """
        return dot.render(self, node, depth)

    def to_model_explorer(self, folder: Path) -> str:
        """Write the files that show both graphs in Model Explorer, Google's graph viewer.

        Returns the command that opens them.

        Raises:
            GraphmpError: GMP004 if `folder` can't be written.
        """
        write_files(pathlib.Path(folder), model_explorer.files(self))
        return model_explorer.command(folder)

    def __repr__(self) -> str:
        return "<graphmp.Diff: %s>" % text.summary(self)

    def _repr_html_(self) -> str:
        return html.embed(html.render(self))


def diff(
    before: Any,
    after: Any,
    report: Optional[Dict[str, Any]] = None,
    names: Tuple[str, str] = ("original", "converted"),
    prove: bool = True,
) -> Diff:
    """All differences between two graphs from outside.

    It works in this process, not in a child with limits as the command does.

    Args:
        before: the original, a MetaGraphDef or GraphDef.
        after: the converted one.
        report: report.json as a dict; its `changes` give reasons, as do its `float32_nodes`.
        names: names for the two.
        prove: whether to prove that both compute the same.

    Raises:
        GraphmpError: GMP008 if no TensorFlow can run one of the graphs, GMP002 if one is no graph,
            or the report is none.
    """
    old, new = (given_graph(graph, "diff") for graph in (before, after))
    found = compare(old, new, None, names, prove)
    if report is None:
        return found
    try:
        return explained(found, report)
    except (AttributeError, KeyError, TypeError, ValueError):
        problem = schemas.first_problem(report, schemas.REPORT)
        raise GraphmpError("GMP002", "diff: the report: %s" % problem) from None


@collector_paused()
def compare(
    before: Readable,
    after: Readable,
    report: Optional[Dict[str, Any]] = None,
    names: Tuple[str, str] = ("original", "converted"),
    prove: bool = True,
) -> Diff:
    """All differences between two graphs that have passed the gate.

    Args:
        before: the original MetaGraphDef.
        after: the converted MetaGraphDef.
        report: report.json as a dict; its `changes` give reasons, as do its `float32_nodes`.
        names: names for the two.
        prove: whether to prove that both compute the same.

    Raises:
        GraphmpError: GMP008 if a node name is not unique, or an input names a missing node.
    """
    first, second = stored(before), stored(after)
    with first.held() as old, second.held() as new:
        views = view_of(first).over(old.graph_def), view_of(second).over(new.graph_def)
        proof = proved(old, new, views=views) if prove else None
        found = _compared(first, second, names, proof)
    return found if report is None else explained(found, report)


def _compared(
    before: StoredMetaGraph, after: StoredMetaGraph, names: Tuple[str, str], proof: Optional[Proof]
) -> Diff:
    """The differences, with the claims of a proof."""
    changes: List[Change] = [
        *part_changes(before.rest, after.rest),
        *function_changes(before.rest, after.rest),
    ]
    compared = []
    for name, old, new in bodies.pairs(before, after):
        pairing = pair(old, new)
        changes += (
            (replace(change, body=name) for change in _body_changes(pairing))
            if name
            else _body_changes(pairing)
        )
        compared.append(BodyPair(name, old, new, pairing.renamed))
    order = {category: index for index, category in enumerate(categories.CATEGORIES)}
    changes.sort(
        key=lambda change: (order[change.category], change.body, change.node)
    )  # stable: attributes and slots stay in order
    claims = () if proof is None else graph_claims(before, after, compared[0], proof)
    return Diff(
        tuple(changes), False, names, claims, bodies=tuple(compared), graphs=(before, after)
    )


def _body_changes(pairing: Pairing) -> Iterator[Change]:
    for name in pairing.before.nodes:
        new_name = pairing.after_of(name)
        if new_name is None:
            yield Change(name, categories.REMOVED, node_text(pairing.before.nodes[name]), None)
            continue
        if new_name != name or pairing.before.serialized(name) != pairing.after.serialized(
            new_name
        ):
            yield from node_changes(name, new_name, pairing)
    for name in pairing.after.nodes:
        if pairing.before_of(name) is None:
            yield Change(
                name,
                categories.ADDED,
                None,
                node_text(pairing.after.nodes[name]),
                value=pairing.after.serialized(name),
            )
