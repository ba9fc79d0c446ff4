"""A diff as columns: lists of numbers of one length in place of objects, which pack far better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

from graphmp.diff import kinds
from graphmp.diff.categories import CATEGORIES
from graphmp.diff.page_data.nodes import Attributes, Record, recorded, same_node
from graphmp.diff.page_data.strings import Strings
from graphmp.diff.page_data.tree import SAME, Tree

if TYPE_CHECKING:
    from graphmp.diff.model import Diff

Columns = Dict[str, List[Any]]


def page_data(diff: Diff) -> Dict[str, Any]:
    """All that the page shows, as a JSON value. A number of a text counts in `strings`, one of a row in `rows`."""
    strings = Strings()
    tree = Tree(diff)
    attributes = Attributes(strings)
    nodes = _nodes(tree, attributes, strings)  # marks rows that are the same on both sides
    patterns = sorted(diff.patterns(), key=lambda pattern: -len(pattern.changes))
    of_change = {id(change): number for number, pattern in enumerate(patterns) for change in pattern.changes}
    return {
        "names": [strings[name] for name in diff.names],
        "report": diff.has_report,
        "categories": list(CATEGORIES),
        "kinds": list(kinds.KINDS),
        "stayed": len(kinds.STAYED),  # the last of the kinds
        "rows": _rows(tree, strings),
        "nodes": nodes,
        "pairs": [number for pair in attributes.pairs for number in pair],
        "sets": attributes.sets,
        "changes": _changes(diff, tree, strings, of_change),
        "kept": _kept(diff, tree, strings),
        "patterns": [[strings[pattern.text], *_words(pattern, strings)] for pattern in patterns],
        "checks": [[strings[check.name], check.status, strings[check.text], _found(map(tree.of_path, check.nodes))] for check in diff.checks],
        "stale": [[strings[line], tree.of_path(line.partition(": ")[0])] for line in diff.stale],
        "strings": strings.texts,  # last: all others add to it
    }


def _rows(tree: Tree, strings: Strings) -> Columns:
    renamed = [(number, strings[row.scope.old]) for number, row in enumerate(tree.rows) if row.scope.old]
    return {
        "depth": [row.depth for row in tree.rows],
        "label": [strings[row.label] for row in tree.rows],
        "what": [row.scope.what for row in tree.rows],
        "renamed": [number for pair in renamed for number in pair],
    }


def _nodes(tree: Tree, attributes: Attributes, strings: Strings) -> Columns:
    """The nodes of both sides in the order of rows, the original's first; one for both sides where nothing differs."""
    found: List[Record] = []
    for row, before, after in _records(tree, attributes, strings):
        if before == after:
            tree.rows[row].scope.what |= SAME
            after = None
        found.extend(record for record in (before, after) if record)
    edges = [number for record in found for number in record.inputs]
    return {
        "op": [record.op for record in found],
        "device": [record.device for record in found],
        "attributes": [record.attributes for record in found],
        "inputs": [len(record.inputs) // 2 for record in found],
        "above": [step for record in found for step in _steps(record.inputs[::2])],
        "output": edges[1::2],
    }


def _steps(above: Sequence[Any]) -> Iterator[int]:
    """How far above the row the first input is, and each other above the one before.

    The hundreds of control inputs that TensorFlow gives alike to thousands of nodes are the same numbers so, and take no room once compressed.
    """
    at = 0
    for rows in above:
        yield rows - at
        at = rows


def _records(tree: Tree, attributes: Attributes, strings: Strings) -> Iterator[Tuple[int, Optional[Record], Optional[Record]]]:
    """Each row with a node, and what the node is on both sides."""
    found: List[List[Optional[Record]]] = [[None] * len(tree.rows) for _ in range(2)]
    for old, new in tree.sides.values():
        for name, scope in old.rows.items():
            found[0][scope.row] = recorded(name, old, attributes, strings)
        for name, scope in new.rows.items():
            found[1][scope.row] = found[0][scope.row] if same_node(name, old, new) else recorded(name, new, attributes, strings)
    return ((row, before, after) for row, (before, after) in enumerate(zip(*found)) if before or after)


def _changes(diff: Diff, tree: Tree, strings: Strings, of_change: Dict[int, int]) -> Columns:
    words = [_words(change, strings) for change in diff.changes]
    columns = dict(zip(("category", "part", "before", "after", "kind", "reason"), map(list, zip(*words)))) if words else {}
    return {**columns, "row": [tree.of_change(change) for change in diff.changes], "pattern": [of_change[id(change)] for change in diff.changes]}


def _words(change: Any, strings: Strings) -> Tuple[int, ...]:
    """What a change and a pattern have in common."""
    return (
        CATEGORIES.index(change.category),
        strings[change.part],
        strings.optional(change.before),
        strings.optional(change.after),
        _kind(change.kind),
        strings[change.reason],
    )


def _kept(diff: Diff, tree: Tree, strings: Strings) -> Columns:
    return {
        "row": [tree.of_node(kept.body, kept.node) for kept in diff.kept],
        "kind": [_kind(kept.kind) for kept in diff.kept],
        "reason": [strings[kept.reason] for kept in diff.kept],
    }


def _kind(kind: str) -> int:
    """The number of a kind; -1 for none."""
    return kinds.KINDS.index(kind) if kind else -1


def _found(rows: Any) -> List[int]:
    return sorted({row for row in rows if row >= 0})
