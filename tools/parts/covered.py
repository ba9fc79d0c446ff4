"""Which test ran which line, from the data of `tools/mutation.py cover`."""

from __future__ import annotations

import pathlib
from typing import Iterator, Tuple


def covered(data: pathlib.Path) -> Iterator[Tuple[str, int, str]]:
    """Each line that ran: its file, its number, and a test that ran it, its fixtures included.

    The test is empty for lines that ran outside of tests, as when a module was imported.
    """
    import coverage

    read = coverage.CoverageData(str(data))
    read.read()
    for path in read.measured_files():
        for line, contexts in read.contexts_by_lineno(path).items():
            yield from ((path, line, context.rpartition("|")[0]) for context in contexts)
