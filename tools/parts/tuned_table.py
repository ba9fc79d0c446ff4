"""The table of tools/tuned_gallery.py: speed-ups of each program, and their geometric means."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Sequence

from graphmp.timings import Ratio, speedup
from parts.measured_text import geometric_mean, said, table

Row = Dict[str, Any]
NEAR = 0.10  # what a speed-up may differ from the predicted one
WIDTH = 0.03  # of a speed-up: what its interval may extend to either side
QUIET = 3.0  # runnable processes: above, the machine had other work
LEAST = 3  # rounds
FLOAT32, BYTES, TUNED, OWN = "float32", "graphmp", "tuned", "tensorflow"  # as in `graphmp bench`
OTHERS = (BYTES, TUNED, OWN)
_KEPT = {"float32": FLOAT32, "bytes": BYTES, "tuned": TUNED}  # variants by what a file keeps
_PREDICTIONS = {BYTES: "bytes", TUNED: "tuned"}  # names in a report's section on costs
HEADINGS = [
    "program",
    "float32",
    "by bytes",
    "tuned",
    "kept",
    "TensorFlow's own",
    "matmuls in half",
    "by bytes, predicted",
    "tuned, predicted",
    "rounds",
]
MEANS = (
    "of float32",
    "of the better of float32 and bytes",
    "of the better of float32 and TensorFlow's own",
)


def clock(row: Row) -> str:
    """The clock whose times count: the processor's where the machine had other work."""
    return "processor" if row["load"] > QUIET else "wall"


def times(row: Row) -> Dict[str, Sequence[float]]:
    """Milliseconds of a step in each round, by variant."""
    return {name: each[clock(row)] for name, each in row["rounds"].items()}


def ratios(row: Row) -> Dict[str, Ratio]:
    """The speed-up against float32 of each other variant."""
    rounds = times(row)
    return {
        name: speedup([[each] for each in rounds[FLOAT32]], [[each] for each in rounds[name]])
        for name in OTHERS
        if name in rounds
    }


def widest(row: Row) -> float:
    """How far the widest interval extends; infinite with less than three rounds."""
    found = ratios(row)
    if not found or len(times(row)[FLOAT32]) < LEAST:
        return math.inf
    return max(ratio.margin for ratio in found.values())


def against(row: Row, name: str, other: str) -> float:
    """The speed-up of a variant against the better of float32 and another one."""
    values = {FLOAT32: 1.0, **{key: each.value for key, each in ratios(row).items()}}
    return values[name] / max(1.0, values.get(other, 1.0))


def is_near(row: Row, name: str) -> bool:
    """Whether a variant's speed-up is near the predicted one."""
    ratio, predicted = ratios(row).get(name), row["predicted"][_PREDICTIONS[name]]
    return ratio is not None and abs(predicted / ratio.value - 1) <= NEAR


def means(rows: Sequence[Row]) -> Iterator[List[str]]:
    """Cells: the geometric means with the fallback on the whole graph, and without it."""
    yield ["speed-up, geometric mean", *MEANS]
    for what, of in (
        ("with the fallback", lambda row: _KEPT[row["kept"]]),
        ("without it", lambda row: TUNED),
    ):
        found = ([against(row, of(row), other) for row in rows] for other in (FLOAT32, BYTES, OWN))
        yield [what, *("%.3f" % geometric_mean(values) for values in found)]


def text(rows: Sequence[Row]) -> List[str]:
    """The table, the means and the conditions of the measurement, in Markdown."""
    cells = [HEADINGS, *map(_cells, rows)]
    lines = ["- " + line for line in conditions(rows)]
    return [*table(cells), "", *table(list(means(rows))), "", *lines]


def conditions(rows: Sequence[Row]) -> Iterator[str]:
    """Where and how it was measured; and rows that are known less well than they should be."""
    for what in ("device", "tensorflow", "date"):
        yield "%s: %s." % (what, ", ".join(sorted({str(row[what]) for row in rows})))
    most = max((row["load"] for row in rows), default=0.0)
    if most > QUIET:
        yield (
            "Load average up to %.1f: other work ran on the machine, and the processor time of all"
            " threads is compared in the rows of more than %g." % (most, QUIET)
        )
    for name, words in ((BYTES, "by bytes"), (TUNED, "tuned")):
        far = sorted(row["program"] for row in rows if not is_near(row, name))
        yield "Predicted within %.0f%%, %s: %d of %d%s." % (
            100 * NEAR, words, len(rows) - len(far), len(rows),
            "; not " + ", ".join(far) if far else "",
        )  # fmt: skip
    wide = sorted(row["program"] for row in rows if widest(row) > WIDTH)
    if wide:
        yield "Wider than %.0f%%: %s." % (100 * WIDTH, ", ".join(wide))


def one_line(row: Row) -> str:
    """A row as a line of text."""
    return "  ".join(_cells(row))


def _cells(row: Row) -> List[str]:
    found, rounds = ratios(row), times(row)
    predicted = row["predicted"]
    return [
        row["program"],
        "%.1f ms" % geometric_mean(rounds[FLOAT32]),
        *(said(found.get(name)) for name in (BYTES, TUNED)),
        row["kept"],
        said(found.get(OWN)),
        "%(converted_ops)d of %(tensor_core_ops)d" % row["coverage"],
        *("%.2f" % predicted[name] for name in _PREDICTIONS.values()),
        str(len(rounds[FLOAT32])),
    ]
