"""A bench as Markdown: a table of step times, for a pull request or an issue."""

from __future__ import annotations

from typing import List, Sequence

from graphmp.bench.bench import Bench, BenchRun
from graphmp.bench.render import text

_TITLES = ("batch", "graph", "ms/step", "speed-up", "95%", "examples/s")


def render(bench: Bench) -> str:
    """The table, the machine above it, remarks below."""
    lines = [
        "**%s**, %s; %s, TensorFlow %s"
        % (_cell(bench.source), bench.compute_dtype, _cell(bench.device.name), bench.tensorflow),
        "",
        _row(_TITLES),
        "|" + "|".join("---" if title == "graph" else "--:" for title in _TITLES) + "|",
        *(_row(_cells(bench, run)) for run in bench.runs),
    ]
    notes = [*text.methods(bench), *bench.remarks, *text.missing(bench)]
    lines += [""] + ["- %s" % _cell(note) for note in notes] if notes else []
    return "\n".join(lines) + "\n"


def _cells(bench: Bench, run: BenchRun) -> List[str]:
    step = run.step
    rate = run.examples_per_second
    return [
        text.batch(run.batch_size),
        text.variant(bench, run.variant),
        run.status if step is None else text.milliseconds(step),
        *text.ratio(bench.speedup(run)),
        "" if rate is None else format(rate, ",.4g" if rate < 1000 else ",.0f"),
    ]


def _row(cells: Sequence[str]) -> str:
    return "| %s |" % " | ".join(map(_cell, cells))


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")
