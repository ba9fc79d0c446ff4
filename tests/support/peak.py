"""The peak of a fork's memory, and how it ended."""

from __future__ import annotations

import os
import pathlib
import re
import traceback
from typing import Callable, Tuple

SELF = pathlib.Path("/proc/self")


def peak_above(function: Callable[[], int]) -> Tuple[int, int]:
    """Run a function in a fork: the bytes that it takes at most, and the status it returns."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            (SELF / "clear_refs").write_text("5")  # proc(5): the peak starts anew
            before = _kilobytes("VmRSS")
            status = function()
            os.write(writing, b"%d" % (1024 * (_kilobytes("VmHWM") - before)))
            os._exit(status)
        except BaseException:
            traceback.print_exc()
        os._exit(99)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        peak = int(file.read() or -1)
    return peak, os.WEXITSTATUS(os.waitpid(pid, 0)[1])


def _kilobytes(name: str) -> int:
    found = re.search(name + r":\s+(\d+) kB", (SELF / "status").read_text())
    assert found is not None
    return int(found.group(1))
