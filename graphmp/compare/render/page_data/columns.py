"""A diff as columns: lists of numbers of equal length, which compress far better than objects."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from graphmp.compare import kinds
from graphmp.compare.categories import CATEGORIES
from graphmp.compare.render.page_data.flow import flow_rows
from graphmp.compare.render.page_data.nodes import Attributes, NodeRow, recorded, same_node
from graphmp.compare.render.page_data.ranking import ranked
from graphmp.compare.render.page_data.strings import ABSENT, Strings
from graphmp.compare.render.page_data.tree import SAME, Scope, Tree, TreeSide
from graphmp.compare.review.reviewed import Reviewed
from graphmp.policy.policy import tensor_core_ops

Columns = Dict[str, List[Any]]


def page_data(diff: Reviewed) -> Dict[str, Any]:
    """The page's data, as a JSON value. Texts are indices into `strings`, rows into `rows`."""
    strings = Strings()
    tree = Tree(diff)
    attributes = Attributes(strings)
    nodes = _nodes(tree, attributes, strings)  # marks rows that are equal in both graphs
    found = ranked(diff)
    # the last kind only where times were measured
    unused = 0 if any(kept.kind == kinds.MEASURED for kept in diff.kept) else 1
    return {
        "names": [strings[name] for name in diff.names],
        "report": diff.has_report,
        "categories": list(CATEGORIES),
        "kinds": list(kinds.KINDS[: len(kinds.KINDS) - unused]),
        "stayed": len(kinds.STAYED) - unused,  # the last of the kinds
        "rows": _rows(tree, strings),
        "nodes": nodes,
        "pairs": [number for pair in attributes.pairs for number in pair],
        "sets": attributes.sets,
        "changes": {**_changes(diff, tree, strings), "pattern": found.of_change},
        "kept": {**_kept(diff, tree, strings), "pattern": found.of_kept},
        "patterns": [
            [strings[pattern.text], *_words(pattern, strings)] for pattern in found.patterns
        ],
        "work": [strings[op] for op in tensor_core_ops() if op in strings],
        "flow": flow_rows(diff, tree, strings),
        "claims": [
            [
                strings[claim.name],
                claim.verdict,
                strings[claim.text],
                sorted({row for row in map(tree.of_path, claim.nodes) if row >= 0}),
            ]
            for claim in diff.claims
        ],
        "stale": [[strings[line], tree.of_path(line.partition(": ")[0])] for line in diff.stale],
        "strings": strings.texts,  # last: all others add to it
    }


def _rows(tree: Tree, strings: Strings) -> Columns:
    renamed = [(row.row, strings[row.old]) for row in tree.rows if row.old]
    return {
        "depth": [row.depth for row in tree.rows],
        "label": [strings[row.label] for row in tree.rows],
        "what": [row.what for row in tree.rows],
        "renamed": [number for pair in renamed for number in pair],
    }


def _nodes(tree: Tree, attributes: Attributes, strings: Strings) -> Columns:
    """The nodes of both graphs in the order of rows, the original's first.

    One if nothing differs.
    """
    columns: Columns = {
        name: [] for name in ("op", "device", "attributes", "inputs", "above", "output")
    }
    for row, before, after in _records(tree, attributes, strings):
        if before == after:
            row.what |= SAME
            after = None
        for record in filter(None, (before, after)):
            columns["op"].append(record.op)
            columns["device"].append(record.device)
            columns["attributes"].append(record.attributes)
            columns["inputs"].append(len(record.inputs) // 2)
            columns["above"].extend(_steps(record.inputs[::2]))
            columns["output"].extend(record.inputs[1::2])
    return columns


def _steps(above: Sequence[Any]) -> Iterator[int]:
    """The distance from the row to the first input, and from each input to the next.

    The hundreds of control inputs that TensorFlow gives to thousands of nodes alike become equal
    numbers, which compress to almost nothing.
    """
    at = 0
    for rows in above:
        yield rows - at
        at = rows


def _records(
    tree: Tree, attributes: Attributes, strings: Strings
) -> Iterator[Tuple[Scope, Optional[NodeRow], Optional[NodeRow]]]:
    """Each row with a node, with the node's records in both graphs."""
    for row, (old, new), (old_name, new_name) in _named(tree):
        before = recorded(old_name, old, attributes, strings) if old_name else None
        if new_name and old_name == new_name and same_node(new_name, old, new):
            yield row, before, before
        else:
            yield row, before, recorded(new_name, new, attributes, strings) if new_name else None


def _named(tree: Tree) -> Iterator[Tuple[Scope, Tuple[TreeSide, TreeSide], Tuple[str, str]]]:
    """Each row with a node, in order: its body in both graphs, and its names, empty if missing."""
    names = [[""] * len(tree.rows) for _ in range(2)]
    sides: List[Optional[Tuple[TreeSide, TreeSide]]] = [None] * len(tree.rows)
    for both in tree.sides.values():
        for column, side in zip(names, both):
            for name, scope in side.rows.items():
                column[scope.row] = name
                sides[scope.row] = both
    return (
        (row, found, (old, new)) for row, found, old, new in zip(tree.rows, sides, *names) if found
    )


def _changes(diff: Reviewed, tree: Tree, strings: Strings) -> Columns:
    words = [_words(change, strings) for change in diff.changes]
    columns = (
        dict(zip(("category", "part", "before", "after", "kind", "reason"), map(list, zip(*words))))
        if words
        else {}
    )
    return {**columns, "row": [tree.of_change(change) for change in diff.changes]}


def _words(change: Any, strings: Strings) -> Tuple[int, ...]:
    """The columns that changes and patterns share."""
    return (
        CATEGORIES.index(change.category) if change.category else ABSENT,
        strings[change.part],
        strings.optional(change.before),
        strings.optional(change.after),
        _kind(change.kind),
        strings[change.reason],
    )


def _kept(diff: Reviewed, tree: Tree, strings: Strings) -> Columns:
    return {
        "row": [tree.of_node(kept.body, kept.node) for kept in diff.kept],
        "kind": [_kind(kept.kind) for kept in diff.kept],
        "reason": [strings[kept.reason] for kept in diff.kept],
    }


def _kind(kind: str) -> int:
    """The index of a kind; -1 for none."""
    return kinds.KINDS.index(kind) if kind else -1
