"""Rows whose names only differ in numbers, such as those of a network's layers, shown as one."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Tuple, TypeVar

_Row = TypeVar("_Row")


def alike(rows: Iterable[_Row], key: Callable[[_Row], Any]) -> List[List[_Row]]:
    """Rows grouped by key, in the order of each first one."""
    groups: Dict[str, List[_Row]] = {}
    for row in rows:
        groups.setdefault(repr(key(row)), []).append(row)
    return list(groups.values())


def pattern(node: str) -> str:
    """A name without its numbers."""
    return re.sub(r"\d+", "*", node)


def grouped(rows: Iterable[Any], *same: str) -> List[Tuple[Any, int]]:
    """Group rows of a `tensor` and its `bytes` with equal attributes `same` and tensor patterns.

    Returns:
        The first row of each group, with the bytes of all, and their number; the largest first.
    """
    groups = alike(rows, lambda row: (pattern(row.tensor), *(getattr(row, name) for name in same)))
    found = [
        (group[0]._replace(bytes=sum(row.bytes for row in group)), len(group)) for group in groups
    ]
    return sorted(found, key=lambda group: (-group[0].bytes, group[0].tensor))
