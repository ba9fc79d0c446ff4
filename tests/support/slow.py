"""The cases that `tests/slow.txt` leaves to --slow."""

from __future__ import annotations

import zlib
from typing import Any, Dict, Iterable

import pytest

from tests.support.places import TESTS


def table() -> Dict[str, int]:
    """For each test of the table, n if one of n cases runs by default, 0 if none does."""
    text = (TESTS / "slow.txt").read_text()
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {"tests/" + test: 0 if share == "none" else int(share) for test, share in rows}


def mark_slow(items: Iterable[Any]) -> None:
    """Mark the other cases as slow."""
    shares = table()
    for item in items:
        share = shares.get(item.nodeid, shares.get(item.nodeid.split("[")[0]))
        if share is not None and (share == 0 or zlib.crc32(item.nodeid.encode()) % share):
            item.add_marker(pytest.mark.slow)
