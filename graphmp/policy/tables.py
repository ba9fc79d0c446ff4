"""Tables in text files: a line is a row of words, `#` begins a comment."""

from __future__ import annotations

import pathlib
from typing import Dict, FrozenSet, List

FOLDER = pathlib.Path(__file__).resolve().parent


def rows(name: str) -> List[List[str]]:
    """The words of each line of a file in this folder, comments left out."""
    lines = (line.split("#")[0].split() for line in (FOLDER / name).read_text().splitlines())
    return [words for words in lines if words]


def sets(name: str) -> Dict[str, FrozenSet[str]]:
    """The words after each first word of a line; a first word may have several lines."""
    found: Dict[str, FrozenSet[str]] = {}
    for word, *members in rows(name):
        found[word] = found.get(word, frozenset()) | frozenset(members)
    return found
