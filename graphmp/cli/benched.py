"""Lines of `graphmp bench`: what was timed, a row for each graph and batch size, causes."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING, Any, List

from graphmp.cli.tables import Line, section, show, size, write
from graphmp.conversion.source import names_a_graph
from graphmp.files.single import write_atomic
from graphmp.wording import labelled

if TYPE_CHECKING:
    from graphmp.bench.bench import Bench, BenchRun

_TITLES = (
    "batch",
    "graph",
    "ms/step",
    "quartiles",
    "range",
    "speed-up",
    "95%",
    "examples/s",
    "peak tensors",
    "peak RSS",
)


def present(args: argparse.Namespace, found: Bench, picture: str) -> None:
    """Draw requested pictures and print the findings."""
    from graphmp.bench.render import text

    following = text.next_step(found, names_a_graph(args.source, args.python))
    if picture:
        from graphmp.bench.render import plot

        write_atomic(pathlib.Path(args.plot), plot.render(found, picture))
    if args.json:
        sys.stdout.write(found.to_json(following))
        return
    if args.format == "markdown":
        from graphmp.bench.render import markdown

        write(markdown.render(found))
        return
    wrote: List[Line] = [("row", labelled("wrote", args.plot))] if picture else []
    show(
        [
            *_head(found),
            *_table(found),
            *_conclusions(found),
            ("row", ""),
            *wrote,
            ("next", labelled("next", following)),
        ]
    )


def _head(found: Bench) -> List[Line]:
    """The timed variants and the method."""
    from graphmp.bench.render import text

    name = found.source.rstrip("/").split("/")[-1]
    rows = [
        ("source", found.source),
        ("device", "%s; TensorFlow %s" % (found.device.name, found.tensorflow)),
        ("data", found.data),
        *(("steps", how) for how in text.methods(found)),
        (
            "memory",
            (
                "a graph's process may take %s" % size(found.memory_limit)
                if found.memory_limit
                else ""
            ),
        ),
        ("input", text.input_line(found)),
        ("sums", text.sums(found)),
    ]
    lines: List[Line] = [("head", labelled(name, "%s against float32" % found.compute_dtype))]
    return (
        lines
        + [("row", labelled(label, said)) for label, said in rows if said]
        + [("note", labelled("note", note)) for note in found.remarks]
    )


def _table(found: Bench) -> List[Line]:
    """A row for each graph and batch size, numbers right-aligned; missing rows below."""
    from graphmp.bench.render import text

    rows = [_row(found, run) for run in found.runs]
    widths = [max(map(len, column)) for column in zip(_TITLES, *rows)]

    def justified(cells: Any) -> List[str]:
        return [
            cell.ljust(width) if place == 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths))
        ]

    lines = section("times", [justified(row) for row in rows], titles=justified(_TITLES))
    lines += [("note", "  " + line) for line in text.ESTIMATOR]
    troubles = [
        "%s at batch size %s: %s"
        % (text.variant(found, run.variant), text.batch(run.batch_size), text.trouble(run))
        for run in found.runs
        if not run.spread
    ]
    return lines + [("note", "  " + line) for line in [*troubles, *text.missing(found)]]


def _row(found: Bench, run: BenchRun) -> List[str]:
    from graphmp.bench.render import text

    seconds, memory = run.spread, run.memory
    cells = [text.batch(run.batch_size), text.variant(found, run.variant)]
    if seconds is None:
        cells += [run.status, "", ""]
    else:
        quartiles, extremes = (
            (seconds.first_quartile, seconds.third_quartile),
            (seconds.least, seconds.most),
        )
        cells.append(text.milliseconds(run.step or 0.0))
        cells += ["-".join(map(text.milliseconds, ends)) for ends in (quartiles, extremes)]
    cells += text.ratio(found.speedup(run))
    cells.append(
        format(run.examples_per_second, ",.4g" if run.examples_per_second < 1000 else ",.0f")
        if run.examples_per_second
        else ""
    )
    return cells + ([size(memory.peak), size(memory.rss)] if memory else ["", ""])


def _conclusions(found: Bench) -> List[Line]:
    """Batch sizes that only the conversion can run, and likely causes of a small speed-up."""
    from graphmp.bench.render import text

    lines: List[Line] = [("passed", line) for line in text.memory_lines(found)]
    if lines:
        lines.insert(0, ("row", ""))
    for batch_size in found.batch_sizes:
        if found.causes(batch_size) is not None:
            causes = text.cause_lines(found, batch_size) or ["nothing that was measured stands out"]
            at = "" if batch_size is None else " at batch size %s" % text.batch(batch_size)
            lines += [
                ("row", ""),
                (
                    "heading",
                    "less than 1.2 times as fast%s; likely causes, by their share of the step" % at,
                ),
            ]
            lines += [("row", "  " + cause) for cause in causes]
    return lines
