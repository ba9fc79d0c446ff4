"""The tree of the page: scopes of both graphs merged, functions below `library`, fields at the end.

A row is a scope, a node, or both. Names are sorted naturally: conv2 before conv10.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from graphmp.compare.categories import ADDED, FUNCTION, META_GRAPH, REMOVED, RENAMED
from graphmp.compare.changes import BodyPair, Change
from graphmp.compare.review.reviewed import Reviewed
from graphmp.graph.structure.view import GraphView
from graphmp.naming import LIBRARY, function_of, places

# Properties of a row, as bits. page/graph.js has the same numbers.
IN_BEFORE, IN_AFTER, SAME, FIELD, SECTION, IN_FUNCTION = 1, 2, 4, 8, 16, 32

META = "meta graph"
# of most rows: a dict for each would take as much memory as all the rest
_CHILDLESS: Dict[str, Scope] = {}
_SIDES = {ADDED: IN_AFTER, REMOVED: IN_BEFORE}
_DIGITS = re.compile("([0-9]+)")


class Scope:
    """A row of the tree.

    Attributes:
        children: the inner rows, by the last part of their names.
        what: the properties of the row.
        old: the name in the original, if it differs.
        label: the last part of its name.
        row: its index in the displayed order; known, like `depth`, once the tree is complete.
        depth: the number of its outer scopes.
    """

    __slots__ = ("children", "depth", "label", "old", "row", "what")

    def __init__(self, label: str = "", what: int = 0) -> None:
        self.children: Dict[str, Scope] = _CHILDLESS
        self.label = label
        self.what = what
        self.old = ""
        self.row = self.depth = -1

    def child(self, label: str, what: int = 0) -> Scope:
        """The inner row of that name, created if missing."""
        if self.children is _CHILDLESS:
            self.children = {}
        found = self.children.get(label)
        if found is None:
            found = self.children[label] = Scope(label, what)
        return found


class TreeSide(NamedTuple):
    """One side of a body: its nodes, if known, and their rows by name."""

    view: Optional[GraphView]
    rows: Dict[str, Scope]


class Tree:
    """All rows of a diff, and the row of each node.

    Attributes:
        sides: both sides of each body by the body's name.
        rows: all rows in order; a scope precedes its contents.
    """

    def __init__(self, diff: Reviewed) -> None:
        self._main = Scope()
        self._library = Scope(LIBRARY, SECTION)
        self._meta = Scope(META, SECTION)
        self._labels: Dict[str, str] = {}
        self.sides: Dict[str, Tuple[TreeSide, TreeSide]] = {}
        for body in diff.bodies:
            self._add_body(body)
        for change in diff.changes:
            self._add_change(change)
        for kept in diff.kept:
            self._ensure(kept.body, kept.node, IN_BEFORE | IN_AFTER)
        self.rows: List[Scope] = list(self._numbered())

    def of_change(self, change: Change) -> int:
        """The row that shows a change."""
        if change.category == META_GRAPH:
            return self._meta.children[change.node].row
        if change.category == FUNCTION:
            return self._library.children[function_of(change.node)].row
        return self.of_node(change.body, change.node, change.category == REMOVED)

    def of_node(self, body: str, node: str, gone: bool = False) -> int:
        """The row of a node: by its name in the converted graph, or with `gone` in the original."""
        before, after = self.sides[body]
        first, second = (before, after) if gone else (after, before)
        return (first.rows.get(node) or second.rows[node]).row

    def of_path(self, path: str) -> int:
        """The row of a `Change.path`; -1 if there is none."""
        for body, name in places(path, self.sides):
            for side in reversed(self.sides[body]):
                if name in side.rows:
                    return side.rows[name].row
        found = self._meta.children.get(path) or self._library.children.get(function_of(path))
        return found.row if found else -1

    def of_scope(self, name: str) -> int:
        """The row of a node or name scope of the main graph; -1 if there is none."""
        scope = self._main
        for part in name.split("/"):
            if part not in scope.children:
                return -1
            scope = scope.children[part]
        return scope.row

    def _add_body(self, body: BodyPair) -> None:
        before, after = TreeSide(body.before, {}), TreeSide(body.after, {})
        self.sides[body.name] = before, after
        for name in body.after.nodes:
            after.rows[name] = self._place(body.name, name, IN_AFTER)
        for name in body.before.nodes:
            scope = (
                after.rows[body.renamed[name]]
                if name in body.renamed
                else self._place(body.name, name, IN_BEFORE)
            )
            scope.what |= IN_BEFORE
            scope.old = name if name in body.renamed else ""
            before.rows[name] = scope

    def _body(self, name: str) -> Tuple[TreeSide, TreeSide]:
        return self.sides.setdefault(name, (TreeSide(None, {}), TreeSide(None, {})))

    def _add_change(self, change: Change) -> None:
        """A row for a change outside of bodies.

        Fields, functions, and all nodes of a diff without bodies.
        """
        if change.category == META_GRAPH:
            self._meta.child(change.node, FIELD)
        elif change.category == FUNCTION:
            self._library.child(function_of(change.node), IN_FUNCTION)
        else:
            scope = self._ensure(
                change.body, change.node, _SIDES.get(change.category, IN_BEFORE | IN_AFTER)
            )
            if change.category == RENAMED:
                scope.old = change.before or ""

    def _ensure(self, body: str, node: str, what: int) -> Scope:
        """The row of a node, created if no body has the node."""
        before, after = self._body(body)
        return after.rows.get(node) or before.rows.get(node) or self._place(body, node, what)

    def _place(self, body: str, node: str, what: int) -> Scope:
        """The row of a node, registered on the sides in `what` if the name is new."""
        scope = self._library.child(body, IN_FUNCTION) if body else self._main
        for part in node.split("/"):
            scope = scope.child(
                self._labels.setdefault(part, part)
            )  # one string for a label that occurs in every layer
        scope.what |= what
        for side, bit in zip(self._body(body), (IN_BEFORE, IN_AFTER)):
            if what & bit:
                side.rows.setdefault(node, scope)
        return scope

    def _numbered(self) -> Iterator[Scope]:
        waiting = (
            _sorted(self._main)
            + [section for section in (self._library, self._meta) if section.children]
        )[::-1]
        for scope in waiting:
            scope.depth = 0
        number = 0
        while waiting:
            scope = waiting.pop()
            scope.row = number
            number += 1
            yield scope
            for child in reversed(_sorted(scope)):
                child.depth = scope.depth + 1
                waiting.append(child)


def _sorted(scope: Scope) -> List[Scope]:
    return (
        sorted(scope.children.values(), key=lambda child: natural(child.label))
        if len(scope.children) > 1
        else list(scope.children.values())
    )


def natural(label: str) -> Tuple[Sequence[object], str]:
    """The sort key of labels: runs of digits by their value, letters case-insensitive."""
    parts: List[object] = list(_DIGITS.split(label.lower()))
    parts[1::2] = [
        (len(digits), digits) for digits in (str(part).lstrip("0") for part in parts[1::2])
    ]
    return parts, label
