"""The cases that `tests/slow.txt` leaves to --slow."""

from __future__ import annotations

import collections
import zlib
from typing import Any, Counter, Dict, Iterable, NamedTuple

import pytest

from tests.support.places import TESTS


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
    for line in (TESTS / "slow.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            test, of, group = (*line.split(), "")[:3]
            shares["tests/" + test] = Share(0 if of == "none" else int(of), group, places[group])
            places[group] += bool(group)
    return shares


def mark_slow(items: Iterable[Any]) -> None:
    """Mark the other cases as slow."""
    shares = table()
    for item in items:
        share = shares.get(item.nodeid, shares.get(item.nodeid.split("[")[0]))
        if share is not None and not share.has(item.nodeid):
            item.add_marker(pytest.mark.slow)
