"""The result of a comparison: changes as data. Each form that people read is one renderer's work."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from graphmp.diff import html, jsonform, markdown, text
from graphmp.graph.files import Path, write_atomic

OP = "op"
DTYPE = "dtype"
CONSTANT = "constant value"
ATTRIBUTE = "attribute"
REWIRED = "rewired"
VIA_CAST = "edge via cast"
CONTROL = "control"
DEVICE = "device"
ADDED = "node added"
REMOVED = "node removed"
META_GRAPH = "meta graph"

# In the order in which they are shown: first what can be wrong, then what a conversion is made of.
CATEGORIES = (REMOVED, OP, REWIRED, CONSTANT, ATTRIBUTE, CONTROL, DEVICE, META_GRAPH, DTYPE, VIA_CAST, ADDED)


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        node: the node's name; for META_GRAPH the field, such as `collection_def/losses` or `library/my_function`.
        category: one of CATEGORIES.
        before: what the original has, in short; None if it has nothing there.
        after: what the converted graph has; None if it has nothing there.
        reason: why, in the words of the report; empty if the report doesn't say.
        part: the attribute, or `input 2` for the data input in slot 2; empty where the category says it all.
    """

    node: str
    category: str
    before: Optional[str]
    after: Optional[str]
    reason: str = ""
    part: str = ""


@dataclass(frozen=True)
class Diff:
    """All differences between two graphs.

    Attributes:
        changes: sorted by category, then by node.
        has_report: whether a report was there to give reasons.
        names: what the two graphs are called.
    """

    changes: Tuple[Change, ...]
    has_report: bool = False
    names: Tuple[str, str] = ("original", "converted")

    @property
    def identical(self) -> bool:
        """Whether nothing differs but the order of nodes."""
        return not self.changes

    @property
    def unexplained(self) -> Tuple[Change, ...]:
        """The changes that the report doesn't account for; none without a report."""
        return tuple(change for change in self.changes if not change.reason) if self.has_report else ()

    def groups(self) -> Dict[str, List[Change]]:
        """The changes by category, categories in order, those without changes left out; the unexplained lead each group."""
        groups: Dict[str, List[Change]] = {category: [] for category in CATEGORIES}
        for change in self.unexplained + tuple(change for change in self.changes if change.reason or not self.has_report):
            groups[change.category].append(change)
        return {category: changes for category, changes in groups.items() if changes}

    def counts(self) -> Dict[str, int]:
        """How many changes a category has; categories in order, those without changes left out."""
        return {category: len(changes) for category, changes in self.groups().items()}

    def to_text(self) -> str:
        """Plain text, all changes."""
        return text.render(self)

    def to_json(self) -> Dict[str, Any]:
        """A JSON value of schema `graphmp.diff/1`, all changes."""
        return jsonform.render(self)

    def to_markdown(self) -> str:
        """Markdown tables for a code review, the first changes of each category."""
        return markdown.render(self)

    def to_html(self, path: Optional[Path] = None) -> str:
        """A page in one file that loads nothing; also written to `path` where one is given.

        Raises:
            GraphmpError: GMP004 if `path` can't be written.
        """
        page = html.render(self)
        if path is not None:
            write_atomic(pathlib.Path(path), page.encode("utf-8"))
        return page

    def _repr_html_(self) -> str:
        return html.embed(html.render(self))
