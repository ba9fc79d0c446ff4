"""The memory of this process: its budget, Python's garbage collector, freeing unused memory.

The budget is for a conversion, above what the imports take: `TIMES` the bytes of the graph's file,
and `BESIDES`. Children behind glass are limited to it; `tests/test_memory_budget.py` measures the
whole command.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from typing import Iterator

TIMES, BESIDES = 40, 200_000_000


def budget(size: int) -> int:
    """The bytes that the conversion of a graph of this many bytes may take."""
    return TIMES * size + BESIDES


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector, if it runs: it traverses a graph repeatedly without finding garbage.

    It otherwise takes a fifth of a conversion's time (20,000 nodes, 1.15.5 and 2.21).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def give_back(generation: int = 0) -> None:
    """Collect garbage, and make glibc return unused memory between blocks in use.

    C++ messages and graphs leave holes there which Python's objects, in memory of their own, never
    fill: in a conversion of 100,000 nodes a fifth of its peak on 1.15.5, a twentieth on 2.21. Takes
    milliseconds. If the C library has no `malloc_trim`, as on macOS, it only collects.

    Args:
        generation: of Python's collector. 0 finds TensorFlow's graphs, which refer to themselves,
            soon after they were built; 2 finds all garbage, in some 6 microseconds per node.
    """
    gc.collect(generation)
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # the man page: malloc_trim(3)
        if trim is not None:
            trim(0)
