"""The cases that `tests/slow.txt` and `tests/slow_measured.txt` leave to --slow.

No case that `tests/kept.txt` names.
"""

from __future__ import annotations

import collections
import pathlib
import zlib
from typing import Any, Counter, Dict, Iterable, List, NamedTuple

import pytest

from tests.support.places import TESTS

SHARES, MEASURED, KEPT = (TESTS / name for name in ("slow.txt", "slow_measured.txt", "kept.txt"))


class Share(NamedTuple):
    """One of `of` cases of a test runs by default, none if 0.

    Tests of a group have different places in it and run different cases.
    """

    of: int
    group: str
    place: int

    def has(self, nodeid: str) -> bool:
        """Whether a case runs by default."""
        name = nodeid.partition("[")[2].split("-")[0] if self.group else nodeid
        return self.of != 0 and (zlib.crc32(name.encode()) + self.place) % self.of == 0


def table() -> Dict[str, Share]:
    """The share of each test, or case, in the table."""
    places: Counter[str] = collections.Counter()
    shares = {}
    for line in names(SHARES):
        test, of, group = (*line.split(), "")[:3]
        shares[test] = Share(0 if of == "none" else int(of), group, places[group])
        places[group] += bool(group)
    return shares


def names(path: pathlib.Path) -> List[str]:
    """The lines of a table, which begin with a test."""
    lines = path.read_text().splitlines()
    return ["tests/" + line for line in lines if line and not line.startswith("#")]


def mark_slow(items: Iterable[Any]) -> None:
    """Mark the other cases as slow."""
    shares, measured, kept = table(), set(names(MEASURED)), set(names(KEPT))
    for item in (item for item in items if item.nodeid not in kept):
        test = item.nodeid.split("[")[0]
        share = shares.get(item.nodeid, shares.get(test))
        if not measured.isdisjoint((item.nodeid, test)) or (
            share is not None and not share.has(item.nodeid)
        ):
            item.add_marker(pytest.mark.slow)
