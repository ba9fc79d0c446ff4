"""Measurements as text: tables in Markdown, speed-ups with intervals, geometric means."""

from __future__ import annotations

import math
import statistics
from typing import List, Optional, Sequence

from graphmp.timings import Ratio


def table(cells: Sequence[Sequence[str]]) -> List[str]:
    """The lines of a table in Markdown; the first row is the headings."""
    rows = ["| %s |" % " | ".join(line) for line in cells]
    return [rows[0], "|" + "---|" * len(cells[0]), *rows[1:]]


def said(ratio: Optional[Ratio]) -> str:
    """`1.05 [1.03, 1.07]`; a dash for what wasn't measured."""
    if ratio is None:
        return "-"
    interval = "" if ratio.low is None else " [%.2f, %.2f]" % (ratio.low, ratio.high)
    return "%.2f%s" % (ratio.value, interval)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; not a number for no values."""
    return math.exp(statistics.mean(map(math.log, values))) if values else math.nan
