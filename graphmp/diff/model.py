"""The result of a comparison: changes as data. Each form that people read is one renderer's work."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.diff import dot, html, jsonform, markdown, model_explorer, text
from graphmp.diff.apply import applied
from graphmp.diff.categories import CATEGORIES
from graphmp.diff.changes import Body, Change, Kept
from graphmp.diff.patterns import Pattern, patterns
from graphmp.diff.review.summary import Summary, summarise
from graphmp.diff.review.work import Work, work
from graphmp.graph.files import Path, write_atomic, write_files
from graphmp.graph.state import State
from graphmp.graph.stored import StoredMetaGraph
from graphmp.hooks.op_definitions import op_definitions
from graphmp.once import once
from graphmp.verify import FAILED, NOT_PROVED, Claim

__all__ = ["CATEGORIES", "Body", "Change", "Diff", "Kept"]


@dataclass(frozen=True, repr=False)
class Diff:
    """All differences between two graphs.

    Attributes:
        changes: sorted by category, then by body and node.
        has_report: whether a report was there to give reasons.
        names: what the two graphs are called.
        claims: what was proved of the two graphs, and what was not.
        stale: changes that the report tells of and the graphs don't have, as `node: change`.
        kept: why nodes stayed float32, by the report.
        bodies: the graphs themselves, body by body, the main graph first.
        graphs: both as they are stored; None where only changes are at hand.
        report: the report of the conversion.
    """

    changes: Tuple[Change, ...]
    has_report: bool = False
    names: Tuple[str, str] = ("original", "converted")
    claims: Tuple[Claim, ...] = ()
    stale: Tuple[str, ...] = ()
    kept: Tuple[Kept, ...] = ()
    bodies: Tuple[Body, ...] = field(default=(), compare=False)
    graphs: Optional[Tuple[StoredMetaGraph, StoredMetaGraph]] = field(default=None, compare=False)
    report: Optional[Dict[str, Any]] = field(default=None, compare=False)

    @once
    def summary(self) -> Optional[Summary]:
        """The summary of a review; None where the graphs are not at hand."""
        return summarise(self)

    @once
    def work(self) -> Dict[str, Work]:
        """The bytes that float ops of the converted graph's training steps move, by path; empty where the graphs are not at hand."""
        return work(self.bodies, State(self.graphs[1], self.bodies[0].after, op_definitions(self.graphs[1]))) if self.graphs else {}

    @property
    def identical(self) -> bool:
        """Whether nothing differs but the order of nodes."""
        return not self.changes

    @property
    def unexplained(self) -> Tuple[Change, ...]:
        """The changes that the report doesn't account for; none without a report."""
        return tuple(change for change in self.changes if not change.reason) if self.has_report else ()

    @property
    def failed(self) -> Tuple[Claim, ...]:
        """The claims that failed or could not be proved."""
        return tuple(claim for claim in self.claims if claim.verdict in (FAILED, NOT_PROVED))

    def groups(self) -> Dict[str, List[Change]]:
        """The changes by category, categories in order, those without changes left out; the unexplained lead each group."""
        groups: Dict[str, List[Change]] = {category: [] for category in CATEGORIES}
        for change in self.unexplained + tuple(change for change in self.changes if change.reason or not self.has_report):
            groups[change.category].append(change)
        return {category: changes for category, changes in groups.items() if changes}

    def counts(self) -> Dict[str, int]:
        """How many changes a category has; categories in order, those without changes left out."""
        return {category: len(changes) for category, changes in self.groups().items()}

    def patterns(self) -> Tuple[Pattern, ...]:
        """The changes as patterns: what differs in the numbers of names alone is one. Categories in order, the unexplained first in each."""
        return tuple(pattern for changes in self.groups().values() for pattern in patterns(changes))

    def apply(self, before: tf.MetaGraphDef) -> tf.MetaGraphDef:
        """The converted graph, made from the original by these changes alone; it may differ in the order of nodes.

        Args:
            before: the original, which is left as it is.
        """
        return applied(self.changes, before)

    def to_text(self, expand: bool = False) -> str:
        """Plain text: the claims, then all changes, those that repeat on one line each unless `expand`."""
        return text.render(self, expand)

    def to_json(self) -> Dict[str, Any]:
        """A JSON value of schema `graphmp.diff/1`, all changes."""
        return jsonform.render(self)

    def to_markdown(self, expand: bool = False) -> str:
        """Markdown for a code review, short enough for a comment; changes that repeat on one line each unless `expand`."""
        return markdown.render(self, expand)

    def to_html(self, path: Optional[Path] = None) -> str:
        """A page in one file that loads nothing; also written to `path` where one is given.

        Raises:
            GraphmpError: GMP004 if `path` can't be written.
        """
        page = html.render(self)
        if path is not None:
            write_atomic(pathlib.Path(path), page.encode("utf-8"))
        return page

    def to_dot(self, node: str, depth: int = 2) -> str:
        """Graphviz DOT of one node's neighbourhood on both sides.

        Args:
            node: `Change.path` of the node, by its name on either side.
            depth: how many edges the neighbourhood reaches.

        Raises:
            GraphmpError: GMP002 where neither graph has the node.
        """
        return dot.render(self, node, depth)

    def to_model_explorer(self, folder: Path) -> str:
        """Writes the files that show both graphs in Model Explorer, Google's graph viewer; returns the command that opens them.

        Raises:
            GraphmpError: GMP004 if `folder` can't be written.
        """
        write_files(pathlib.Path(folder), model_explorer.files(self))
        return model_explorer.command(folder)

    def __repr__(self) -> str:
        return "<graphmp.Diff: %s>" % text.summary(self)

    def _repr_html_(self) -> str:
        return html.embed(html.render(self))
