"""Tables of data in text files: a line is a row of words, `#` begins a comment."""

from __future__ import annotations

import pathlib
from typing import Dict, FrozenSet, List


def rows(path: pathlib.Path) -> List[List[str]]:
    """The words of each line, comments left out."""
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return [words for words in lines if words]


def sets(path: pathlib.Path) -> Dict[str, FrozenSet[str]]:
    """What belongs to the first word of a line; a first word may have several lines."""
    found: Dict[str, FrozenSet[str]] = {}
    for name, *members in rows(path):
        found[name] = found.get(name, frozenset()) | frozenset(members)
    return found
