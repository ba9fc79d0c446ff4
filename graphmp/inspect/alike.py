"""Rows that differ in the numbers of names alone, as in the layers of a network, told as one."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Tuple, TypeVar

_Row = TypeVar("_Row")


def alike(rows: Iterable[_Row], key: Callable[[_Row], Any]) -> List[List[_Row]]:
    """Rows with the same key together, in the order of each first one."""
    groups: Dict[str, List[_Row]] = {}
    for row in rows:
        groups.setdefault(repr(key(row)), []).append(row)
    return list(groups.values())


def pattern(node: str) -> str:
    """A name with its numbers left out."""
    return re.sub(r"\d+", "*", node)


def grouped(rows: Iterable[Any], *same: str) -> List[Tuple[Any, int]]:
    """Rows of a `tensor` and its `bytes`, those that agree in the attributes `same` and the tensor's pattern as one.

    Returns:
        The first row of each, with the bytes of all, and how many there are; the largest first.
    """
    groups = alike(rows, lambda row: (pattern(row.tensor), *(getattr(row, name) for name in same)))
    found = [
        (group[0]._replace(bytes=sum(row.bytes for row in group)), len(group)) for group in groups
    ]
    return sorted(found, key=lambda group: (-group[0].bytes, group[0].tensor))
