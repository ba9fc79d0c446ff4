"""The table of the gallery: measurements of tools/gallery.py as Markdown, between two comments."""

from __future__ import annotations

import re
import statistics
import textwrap
from typing import Any, Callable, Dict, List, Sequence, Tuple

Row = Dict[str, Any]
WIDTH = 150  # characters per line
VERSIONS = ("2.21", "1.15.5")
BEGIN, END = "<!-- gallery -->\n", "<!-- end -->\n"
BETWEEN = re.compile("(?<=%s).*?(?=%s)" % (re.escape(BEGIN), re.escape(END)), re.DOTALL)
NOTHING = "-"
NOTES = """\
`recipe` and `rewrite` are what `graphmp convert` makes of the program with that `--engine`, `run`
is `graphmp run`: *whole* where all matmuls and convolutions are in half precision, *in part* where
some stay float32, or the code of the error, which `graphmp explain GMP012` explains. Loss parity:
how far the mean of the last quarter of the losses in mixed precision is from float32's, from the
same initial values on the same batches, over all seeds; in brackets float32's own standard
deviation from seed to seed; bfloat16 on TensorFlow 2 / float16 on 1.15.5. Coverage: matmuls and
convolutions in half precision, of all, forward and backward, by the rewrite; casts: those that it
puts in. Speed ratio: the time of a step in float32 over that in bfloat16, with its 95%% interval,
from one run of `graphmp bench` on TensorFlow 2.21, in the sizes that `gallery.json` names; all else
is at `--smoke` size. Where two numbers stand, TensorFlow 2.21's is the first. Made by `python
tools/gallery.py measure`; %s.
"""


def replaced(text: str, rows: Sequence[Row]) -> str:
    """A copy of `text` with the table of these rows and its notes between the two comments.

    Raises:
        ValueError: the text doesn't have each comment exactly once.
    """
    if not text.count(BEGIN) == text.count(END) == len(BETWEEN.findall(text)) == 1:
        raise ValueError(
            "no place for the table: accepted is one line %s and one line %s behind it"
            % (BEGIN.strip(), END.strip())
        )
    return BETWEEN.sub(lambda _: "\n".join(table(rows) + ["", *notes(rows), ""]), text)


def table(rows: Sequence[Row]) -> List[str]:
    """The rows as an aligned Markdown table, one line per program.

    A value that differs between the TensorFlow versions is given for both.
    """
    columns = _columns(rows)
    programs = sorted({row["program"] for row in rows})
    cells = [[heading for heading, _ in columns]]
    cells += [
        [cell(name, [_of(rows, name, version) for version in VERSIONS]) for _, cell in columns]
        for name in programs
    ]
    widths = [max(map(len, column)) for column in zip(*cells)]
    cells.insert(1, ["-" * width for width in widths])
    return [
        "| %s |" % " | ".join(cell.ljust(width) for cell, width in zip(line, widths))
        for line in cells
    ]


def _columns(rows: Sequence[Row]) -> List[Tuple[str, Callable[[str, Sequence[Row]], str]]]:
    """Headings, each with the function that makes a cell.

    The function takes a program's name and its row on each TensorFlow, empty if not measured.
    """
    columns = [("program", lambda name, _: "[%s](%s.py)" % (name, name))]
    columns += [
        (
            way,
            lambda _, found, way=way: _joined([outcome(row[way]) if row else "" for row in found]),
        )
        for way in ("recipe", "rewrite", "run")
    ]
    columns += [
        ("TensorFlow " * (not i) + version, lambda _, found, i=i: trains(found[i]))
        for i, version in enumerate(VERSIONS)
    ]
    columns.append(("loss parity", lambda _, found: " / ".join(parity(row) for row in found)))
    columns.append(
        (
            "coverage",
            lambda _, found: _joined([coverage(row["rewrite"]) if row else "" for row in found]),
        )
    )
    columns.append(
        (
            "casts",
            lambda _, found: _joined(
                [str(row["rewrite"].get("casts", "")) if row else "" for row in found]
            ),
        )
    )
    for device in ("cpu", "gpu"):
        if device == "cpu" or any(device in row["speed"] for row in rows):
            columns.append(
                (
                    "%s speed ratio" % device.upper(),
                    lambda _, found, device=device: ratio(found[0].get("speed", {}).get(device)),
                )
            )
    return columns


def _of(rows: Sequence[Row], name: str, version: str) -> Row:
    """The newest row of a program on a TensorFlow; empty if there is none."""
    found = [
        row for row in rows if row["program"] == name and row["tensorflow"].startswith(version)
    ]
    return max(found, key=lambda row: row["date"]) if found else {}


def _joined(cells: Sequence[str]) -> str:
    """The values of all TensorFlow versions; one value if they agree."""
    known = [cell for cell in cells if cell]
    return (
        " / ".join(cell or NOTHING for cell in cells)
        if len(set(known)) > 1
        else (known or [NOTHING])[0]
    )


def outcome(way: Row) -> str:
    """Whether a conversion covers all matmuls and convolutions, or the code of its error."""
    if "failed" in way:
        return way["failed"]
    return "whole" if way["converted_ops"] == way["tensor_core_ops"] else "in part"


def trains(row: Row) -> str:
    """Whether a program converts and trains on a TensorFlow."""
    if not row:
        return NOTHING
    return "no" if "failed" in row["rewrite"] or "failed" in row["run"] else "yes"


def coverage(way: Row) -> str:
    """The number of matmuls and convolutions in half precision, of all."""
    return "" if "failed" in way else "%(converted_ops)d of %(tensor_core_ops)d" % way


def parity(row: Row) -> str:
    """The distance of the losses from float32's, over all seeds, and float32's own spread.

    With several losses, the one with the largest distance.
    """
    seeds = list(row["parity"]["seeds"].values()) if row else []
    if not seeds:
        return NOTHING
    if any(None in pair for losses in seeds for pair in losses.values()):
        return "not finite"
    return max(
        (_parity([losses[name] for losses in seeds]) for name in seeds[0]),
        key=lambda found: abs(found[0]),
    )[1]


def _parity(pairs: Sequence[Tuple[float, float]]) -> Tuple[float, str]:
    """The relative difference of the means of (float32, mixed), and its text.

    The text includes the deviation of the float32 values.
    """
    exact, half = zip(*pairs)
    unit = abs(statistics.mean(exact)) / 100
    difference = (statistics.mean(half) - statistics.mean(exact)) / unit
    text = ("%+.2f%%" % difference).replace("-0.00", "+0.00")
    return difference, text + " (%.1f%%)" % (statistics.stdev(exact) / unit) if len(
        pairs
    ) > 1 else text


def ratio(speed: Row) -> str:
    """The ratio of the step times in float32 and bfloat16, with its interval."""
    return "%.2f [%.2f, %.2f]" % (speed["value"], speed["low"], speed["high"]) if speed else NOTHING


def one_line(row: Row) -> str:
    """A row as a line of text."""
    ways = "  ".join("%s %s" % (way, outcome(row[way])) for way in ("recipe", "rewrite", "run"))
    speeds = "".join(
        "  %s ratio %s" % (device, ratio(speed)) for device, speed in sorted(row["speed"].items())
    )
    return "%s  %s  loss %s%s" % (row["program"], ways, parity(row), speeds)


def notes(rows: Sequence[Row]) -> List[str]:
    """The meaning of the columns, and the source of their numbers."""
    return textwrap.wrap(NOTES % "; ".join(_measured(rows)), WIDTH)


def _measured(rows: Sequence[Row]) -> List[str]:
    """The dates, seeds and processors of each TensorFlow."""
    told = []
    for version in sorted({row["tensorflow"] for row in rows}, reverse=True):
        found = [row for row in rows if row["tensorflow"] == version]
        dates = sorted({row["date"] for row in found})
        counts = sorted({len(row["parity"]["seeds"]) for row in found if row["parity"]["seeds"]})
        seeds = " to ".join(str(count) for count in sorted({*counts[:1], *counts[-1:]})) or "no"
        span = " to ".join(sorted({dates[0], dates[-1]}))
        told.append(
            "TensorFlow %s: %s, %s seed%s, %s"
            % (
                version,
                span,
                seeds,
                "" if seeds == "1" else "s",
                ", ".join(sorted({row["cpu"] for row in found})),
            )
        )
    return told
