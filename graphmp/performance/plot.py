"""A bench as a picture: milliseconds a step, speed-up and memory by batch size."""

from __future__ import annotations

import io
from typing import Any, Callable, List, Optional, Tuple

from matplotlib.figure import Figure

from graphmp.performance import text
from graphmp.performance.bench import OUT_OF_MEMORY, VARIANTS, Bench, Run
from graphmp.performance.causes import ENOUGH

FORMATS = ("png", "svg")
_COLOURS = dict(zip(VARIANTS, ("#555555", "#1b7f5c", "#b5651d")))
_MARKERS = dict(zip(VARIANTS, "os^"))
_SIZE = (13, 4.6)  # inches
_DPI = 120
_APART = 0.08  # of a batch size's place, between variants
_ROOM = 1.12  # above the highest point
_LONGEST = 2  # times the value: how much of an error bar is shown at least

Bars = Optional[Tuple[float, float, float]]  # a value and the ends of its error bar


def render(bench: Bench, form: str) -> bytes:
    """The picture in one of FORMATS."""
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    panels = figure.subplots(1, len(_PANELS))
    for axes, (title, value) in zip(panels, _PANELS):
        _panel(axes, bench, title, value)
    panels[_SPEEDUP].axhline(1, color="#555555", linewidth=1)
    panels[_SPEEDUP].axhline(ENOUGH, color="#bbbbbb", linewidth=1, linestyle=":")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncol=len(VARIANTS), frameon=False)
    figure.suptitle("%s, %s on %s" % (bench.source.rstrip("/").split("/")[-1], bench.compute_dtype, bench.device.name), fontsize=11)
    figure.subplots_adjust(left=0.05, right=0.98, top=0.84, bottom=0.22, wspace=0.2)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form)
    return buffer.getvalue()


def _panel(axes: Any, bench: Bench, title: str, value: Callable[[Bench, Run], Bars]) -> None:
    """Lines with error bars, a variant each, the batch sizes at equal distances."""
    sizes, top = bench.batch_sizes, 0.0
    for number, name in enumerate(VARIANTS):
        runs = [(sizes.index(run.batch_size) + _APART * (number - 1), run) for run in bench.runs if run.variant == name]
        points = [(place, bars) for place, bars in ((place, value(bench, run)) for place, run in runs) if bars]
        _line(axes, points, label=text.variant(bench, name), color=_COLOURS[name], marker=_MARKERS[name])
        for place, run in runs:
            if run.status == OUT_OF_MEMORY:
                axes.text(
                    place, 0.02, OUT_OF_MEMORY, rotation=90, ha="center", transform=axes.get_xaxis_transform(), color=_COLOURS[name], fontsize=8
                )
        top = max([top, *(min(bars[2], _LONGEST * bars[0]) for _, bars in points)])
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("batch size")
    axes.set_xticks(range(len(sizes)))
    axes.set_xticklabels([text.batch(size) for size in sizes])
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_ylim(0, _ROOM * top or 1)
    axes.grid(axis="y", color="#eeeeee")


def _line(axes: Any, points: List[Tuple[float, Tuple[float, float, float]]], **style: Any) -> None:
    if points:
        places, values = [place for place, _ in points], [bars[0] for _, bars in points]
        lengths = [[bars[0] - bars[1] for _, bars in points], [bars[2] - bars[0] for _, bars in points]]
        axes.errorbar(places, values, yerr=lengths, capsize=3, linewidth=1.2, **style)


def _step(bench: Bench, run: Run) -> Bars:
    seconds = run.spread
    return (1000 * seconds.median, 1000 * seconds.first_quartile, 1000 * seconds.third_quartile) if seconds else None


def _faster(bench: Bench, run: Run) -> Bars:
    ratio = bench.speedup(run)
    if ratio is None:
        return None
    return (ratio.value, ratio.value if ratio.low is None else ratio.low, ratio.value if ratio.high is None else ratio.high)


def _memory(bench: Bench, run: Run) -> Bars:
    return (run.memory.peak / 1e6,) * 3 if run.memory else None


_SPEEDUP = 1
_PANELS: List[Tuple[str, Callable[[Bench, Run], Bars]]] = [
    ("ms/step: median and quartiles", _step),
    ("times as fast as float32: 95% interval", _faster),
    ("peak memory of TensorFlow's tensors, MB", _memory),
]
