"""A bench as a picture: milliseconds of a step, speed-up and memory by batch size."""

from __future__ import annotations

import io
from typing import Any, Callable, List, Optional, Tuple

from matplotlib.figure import Figure

from graphmp.bench.bench import TIMED, VARIANTS, Bench, BenchRun
from graphmp.bench.causes import ENOUGH
from graphmp.bench.render import text

_COLOURS = dict(zip(VARIANTS, ("#555555", "#1b7f5c", "#3b5fa8", "#b5651d")))
_MARKERS = dict(zip(VARIANTS, "osD^"))
_SIZE = (13, 4.6)  # inches
_DPI = 120
_APART = 0.12  # between variants, in units of the distance between batch sizes
_ROOM = 1.12  # above the highest point
_BEYOND = "goes on to the number"
_LONGEST = 2  # times the value: the minimum of an error bar that is shown

Bars = Optional[Tuple[float, float, float]]  # a value and the ends of its error bar


def render(bench: Bench, form: str) -> bytes:
    """The picture as "png" or "svg"."""
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    panels = figure.subplots(1, len(_PANELS))
    for axes, (title, value) in zip(panels, _PANELS):
        _panel(axes, bench, title, value)
    faster = panels[_SPEEDUP]
    faster.set_ylim(0, max(faster.get_ylim()[1], _ROOM * ENOUGH))
    _threshold(faster, 1, "1x: as fast as float32", color="#555555")
    _threshold(
        faster, ENOUGH, "%gx: below it, likely causes" % ENOUGH, color="#555555", linestyle=":"
    )
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())
    }
    figure.legend(
        handles.values(),
        handles,
        loc="lower center",
        ncol=len(handles),
        frameon=False,
        fontsize=9,
        columnspacing=1.2,
    )
    figure.suptitle(
        "%s, %s on %s"
        % (bench.source.rstrip("/").split("/")[-1], bench.compute_dtype, bench.device.name),
        fontsize=11,
    )
    figure.subplots_adjust(left=0.05, right=0.98, top=0.84, bottom=0.22, wspace=0.24)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form)
    return buffer.getvalue()


def _panel(axes: Any, bench: Bench, title: str, value: Callable[[Bench, BenchRun], Bars]) -> None:
    """Points with their intervals, one for each variant, with equidistant batch sizes.

    Missing measurements are not drawn.
    """
    sizes = bench.batch_sizes
    placed = [
        (
            sizes.index(run.batch_size) + _APART * (VARIANTS.index(run.variant) - 1),
            run,
            value(bench, run),
        )
        for run in bench.runs
    ]
    ends = [max(bars[0], min(bars[2], _LONGEST * bars[0])) for _, _, bars in placed if bars]
    top = _ROOM * max(ends, default=0.0) or 1
    for name in VARIANTS:
        points = [(place, bars) for place, run, bars in placed if run.variant == name and bars]
        if points:
            _points(axes, points, top, _COLOURS[name])
            axes.plot(
                *zip(*((place, bars[0]) for place, bars in points)),
                _MARKERS[name],
                color=_COLOURS[name],
                label=text.variant(bench, name),
            )
    for place, run, _ in placed:
        if run.status != TIMED:
            _status(axes, place, run)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("batch size")
    axes.set_xticks(range(len(sizes)))
    axes.set_xticklabels([text.batch(size) for size in sizes])
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_ylim(0, top)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)


def _status(axes: Any, place: float, run: BenchRun) -> None:
    """Why there is no point."""
    style = dict(
        rotation=90,
        ha="center",
        transform=axes.get_xaxis_transform(),
        color=_COLOURS[run.variant],
        fontsize=8,
    )
    axes.text(place, 0.02, run.status, **style)


def _points(
    axes: Any, points: List[Tuple[float, Tuple[float, float, float]]], top: float, colour: str
) -> None:
    """The intervals; one that leaves the picture ends in an arrow with its end as a number."""
    for place, (_, low, high) in points:
        inside = min(high, top)
        if high > low:
            axes.errorbar(
                [place],
                [(low + inside) / 2],
                yerr=[(inside - low) / 2],
                fmt="none",
                capsize=3 if high <= top else 0,
                ecolor=colour,
            )
        if high > top:
            axes.plot(
                [place],
                [0.98 * top],
                marker=r"$\uparrow$",
                linestyle="none",
                markersize=10,
                color=colour,
                clip_on=False,
                label=_BEYOND,
            )
            axes.annotate(
                "%.3g" % high,
                (place, top),
                (6, -9),
                textcoords="offset points",
                fontsize=8,
                color=colour,
            )


def _threshold(axes: Any, value: float, meaning: str, **style: Any) -> None:
    """A horizontal line with its value at the right edge, and its meaning in the legend."""
    axes.axhline(value, linewidth=1, zorder=1, label=meaning, **style)
    axes.annotate(
        "%gx" % value,
        (1, value),
        (3, -3),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        fontsize=8,
    )


def _step(bench: Bench, run: BenchRun) -> Bars:
    spread = run.spread
    return (
        (1000 * (run.step or 0.0), 1000 * spread.first_quartile, 1000 * spread.third_quartile)
        if spread
        else None
    )


def _faster(bench: Bench, run: BenchRun) -> Bars:
    ratio = bench.speedup(run)
    if ratio is None:
        return None
    return (
        ratio.value,
        ratio.value if ratio.low is None else ratio.low,
        ratio.value if ratio.high is None else ratio.high,
    )


def _memory(bench: Bench, run: BenchRun) -> Bars:
    return (run.memory.peak / 1e6,) * 3 if run.memory else None


_SPEEDUP = 1
_PANELS: List[Tuple[str, Callable[[Bench, BenchRun], Bars]]] = [
    ("ms/step; bars: quartiles of single steps", _step),
    ("times as fast as float32; bars: 95% interval", _faster),
    ("peak memory of TensorFlow's tensors, MB", _memory),
]
