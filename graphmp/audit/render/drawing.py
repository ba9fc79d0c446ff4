"""Histograms of exponents beside the range of a half-precision format, as SVG.

The picture follows figure 3 of Micikevicius et al., Mixed Precision Training (ICLR 2018): x is a
power of two, y the share of the values.
"""

from __future__ import annotations

import html
import math
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from graphmp.audit.measure.tally import added_up
from graphmp.audit.render.text import LOWEST
from graphmp.audit.render.words import share
from graphmp.policy.formats import EXPONENT_BIAS, Format

WIDTH, HEIGHT = 560, 198
TOP, BOTTOM = 26, 176  # of the bars
_LEFT, _RIGHT = 56, 552
_ZERO_WIDTH, _GAP = 20, 12
_LAST = 254  # exponent field of the largest finite float32
DECADES = 7  # of the logarithmic axis, below 100%
VANISHES, SUBNORMAL, NORMAL, OVERFLOWS, ZERO, NOT_FINITE = (
    "vanishes",
    "subnormal",
    "normal",
    "overflows",
    "zero",
    "not-finite",
)
_ZONE_NAMES = (
    (VANISHES, "becomes zero"),
    (SUBNORMAL, "subnormal"),
    (NORMAL, "normal"),
    (OVERFLOWS, "overflow"),
)
_CHARACTER = 6  # width of one in a zone's name, with some room


class Bin(NamedTuple):
    """A bar: its position, its width, and its zone of the format."""

    x: float
    width: float
    zone: str


class HistogramFrame:
    """The axis that all histograms of a page share: the range of exponents and their positions.

    Attributes:
        format: the half-precision format.
        bins: the bars: zeros, the exponents in ascending order, values that aren't finite.
        fields: the index of the bar for each exponent field of float32.
    """

    def __init__(self, format_: Format, exponents: Sequence[Any]):
        """Find a range that holds nearly everything.

        Args:
            format_: the half-precision format.
            exponents: counts of shape [256] to be shown.
        """
        self.format = format_
        present = np.flatnonzero(added_up(exponents)[1:-1]) + 1 - EXPONENT_BIAS
        lowest, highest = (int(present[0]), int(present[-1])) if present.size else (0, 0)
        beyond = min(LOWEST, format_.bottom - 2)
        self.low = max(beyond - 24, min(beyond, lowest))
        self.high = min(format_.top + 24, max(format_.top + 7, highest + 1))
        start, end = _LEFT + _ZERO_WIDTH + _GAP, _RIGHT - _ZERO_WIDTH - _GAP
        self._start, self._step = start, (end - start) / (self.high - self.low + 1)
        inside = [Bin(self.x(e), self._step, self._zone(e)) for e in range(self.low, self.high + 1)]
        self.bins = [
            Bin(_LEFT, _ZERO_WIDTH, ZERO),
            *inside,
            Bin(_RIGHT - _ZERO_WIDTH, _ZERO_WIDTH, NOT_FINITE),
        ]
        clipped = (
            np.clip(np.arange(1, _LAST + 1) - EXPONENT_BIAS, self.low, self.high) - self.low + 1
        )
        self.fields = [0, *(int(number) for number in clipped), len(self.bins) - 1]

    def x(self, exponent: float) -> float:
        """The position of a power of two."""
        return self._start + (exponent - self.low) * self._step

    def _zone(self, exponent: int) -> str:
        format_ = self.format
        if exponent < format_.bottom - 1:
            return VANISHES
        if exponent > format_.top:
            return OVERFLOWS
        return SUBNORMAL if exponent < format_.normal else NORMAL

    def shares(self, exponents: Any) -> List[float]:
        """The share of the values in each bar."""
        total = max(1, int(np.sum(exponents)))
        counts = np.bincount(
            self.fields, weights=np.asarray(exponents, np.float64), minlength=len(self.bins)
        )
        return [float(count) / total for count in counts]

    def svg(self, inside: str, label: str) -> str:
        """A whole drawing: range, axes and contents."""
        return (
            '<svg class="figure" viewBox="0 0 %d %d" role="img" aria-label="%s">\n%s%s%s</svg>'
            % (
                *(WIDTH, HEIGHT, html.escape(label)),
                *(self._zones(), inside, self._axis()),
            )
        )

    def _zones(self) -> str:
        parts = []
        for zone, name in _ZONE_NAMES:
            bins = [each for each in self.bins if each.zone == zone]
            x, width = bins[0].x, bins[-1].x + bins[-1].width - bins[0].x
            parts.append(
                '<rect class="zone %s" x="%.1f" y="%d" width="%.1f" height="%d"/>\n'
                % (zone, x, TOP - 18, width, BOTTOM - TOP + 18)
            )
            if len(name) * _CHARACTER < width:
                parts.append(
                    '<text class="zone-name %s" x="%.1f" y="%d">%s</text>\n'
                    % (zone, x + width / 2, TOP - 6, name)
                )
        return "".join(parts)

    def _axis(self) -> str:
        every = 8 if self.high - self.low < 100 else 32
        ticks = [exponent for exponent in range(self.low, self.high + 1) if exponent % every == 0]
        texts = [
            (
                self.x(exponent),
                "2" + superscript(exponent),
                "" if exponent % (2 * every) == 0 else " less",
            )
            for exponent in ticks
        ]
        texts += [(_LEFT + _ZERO_WIDTH / 2, "0", ""), (_RIGHT - _ZERO_WIDTH / 2, "\u221e", "")]
        base = '<path class="axis" d="M%d %dH%d"/>\n' % (_LEFT, BOTTOM, _RIGHT)
        marks = "".join(
            '<path class="axis" d="M%.1f %dv4"/>\n' % (self.x(exponent), BOTTOM)
            for exponent in ticks
        )
        return (
            base
            + marks
            + "".join(
                '<text class="tick%s" x="%.1f" y="%d">%s</text>\n' % (kind, x, BOTTOM + 16, text)
                for x, text, kind in texts
            )
        )


def superscript(number: int) -> str:
    """A number as an exponent."""
    return str(number).translate(
        str.maketrans(
            "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
        )
    )


def drawn(frame: HistogramFrame, exponents: Any, ghost: Any = None, ghost_name: str = "") -> str:
    """Bars on a logarithmic and on a linear axis; the page shows one of them.

    Args:
        frame: of the page.
        exponents: counts of shape [256].
        ghost: counts of the values times a loss scale; None for none.
        ghost_name: the label at its top.
    """
    shares = frame.shares(exponents)
    ghosts = frame.shares(ghost) if ghost is not None else []
    top = linear_top([*shares[1:-1], *ghosts[1:-1]])
    found = []
    for name, heights, labels in (
        ("log", _log, _log_labels()),
        ("linear", lambda s: s / top, _linear_labels(top)),
    ):
        bars = _bars(frame, [heights(part) for part in shares])
        outline = _outline(frame, [heights(part) for part in ghosts], ghost_name) if ghosts else ""
        found.append('<g class="%s">\n%s%s%s</g>\n' % (name, labels, bars, outline))
    return "".join(found)


def scales() -> str:
    """The axes of a drawing whose bars, and numbers of the linear axis, a script draws."""
    return '<g class="log">\n%s</g>\n<g class="linear">\n%s</g>\n' % (
        _log_labels(),
        _linear_labels(1.0),
    )


def linear_top(shares: Sequence[float]) -> float:
    """The end of a linear axis: a round share that no given one exceeds."""
    largest = max(shares, default=0.0)
    return next(
        (top for top in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if largest <= top),
        1.0,
    )


def scaled(exponents: Any, scale: float) -> Any:
    """Counts of values times a power of two; zeros and values that aren't finite stay."""
    counts = np.asarray(exponents, np.int64)
    found = np.zeros_like(counts)
    places = np.clip(np.arange(1, _LAST + 1) + round(math.log2(scale)), 1, _LAST)
    np.add.at(found, places, counts[1 : _LAST + 1])
    found[[0, -1]] = counts[[0, -1]]
    return found


def _log(part: float) -> float:
    """The height of a share, at least a hairline."""
    return max(0.01, 1 + math.log10(part) / DECADES) if part else 0.0


def _y(height: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * min(1.0, height)


def _labels(values: Sequence[Tuple[float, str]]) -> str:
    return "".join(
        '<path class="grid" d="M%d %.1fH%d"/><text class="tick y" x="%d" y="%.1f">%s</text>\n'
        % (_LEFT, _y(h), _RIGHT, _LEFT - 3, _y(h) + 3.5, text)
        for h, text in values
    )


def _log_labels() -> str:
    return _labels(
        [(1 - decade / DECADES, "%.4g%%" % 10.0 ** (2 - decade)) for decade in range(0, DECADES, 2)]
    )


def _linear_labels(top: float) -> str:
    return _labels([(part, "%.3g%%" % (100 * part * top)) for part in (0.5, 1.0)])


def _bars(frame: HistogramFrame, heights: Sequence[float]) -> str:
    """One path for each zone."""
    paths = []
    for zone in dict.fromkeys(each.zone for each in frame.bins):
        data = "".join(
            _bar(each, height)
            for each, height in zip(frame.bins, heights)
            if each.zone == zone and height
        )
        paths.append('<path class="bar %s" d="%s"/>\n' % (zone, data) if data else "")
    return "".join(paths)


def _bar(each: Bin, height: float) -> str:
    return "M%.1f %dV%.1fh%.1fV%dz" % (
        each.x + 0.4,
        BOTTOM,
        _y(height),
        max(0.6, each.width - 0.8),
        BOTTOM,
    )


def _outline(frame: HistogramFrame, heights: Sequence[float], name: str) -> str:
    """The outline of a histogram, from its first bar to its last, and its name at the top."""
    shown = [
        number for number, height in enumerate(heights) if height and 0 < number < len(heights) - 1
    ]
    if not shown:
        return ""
    first, last = shown[0], shown[-1]
    steps = "".join(
        "V%.1fh%.1f" % (_y(heights[number]), frame.bins[number].width)
        for number in range(first, last + 1)
    )
    path = '<path class="ghost" d="M%.1f %d%sV%d"/>\n' % (
        frame.bins[first].x,
        BOTTOM,
        steps,
        BOTTOM,
    )
    highest = max(shown, key=lambda number: heights[number])
    place = (
        frame.bins[highest].x + frame.bins[highest].width / 2,
        max(TOP + 10, _y(heights[highest]) - 5),
    )
    return path + '<text class="ghost-name" x="%.1f" y="%.1f">%s</text>\n' % (
        *place,
        html.escape(name),
    )


LINES = 96  # height of the part of a chart with the losses
_DIFFERENCES = 44  # of the part with their differences
_CHART = TOP + LINES + 16 + _DIFFERENCES + 18


def loss_chart(
    original: Sequence[float], converted: Sequence[float], differences: Sequence[float], label: str
) -> str:
    """Losses by step as two lines, and their difference as bars below.

    Values that aren't finite leave a gap in their line and are a full bar.
    """
    finite = [value for value in (*original, *converted) if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    spread = (high - low) or max(abs(high), 1.0)
    worst = max([value for value in differences if math.isfinite(value)], default=0.0)
    width = (_RIGHT - _LEFT) / max(1, len(original))
    bottom = TOP + LINES + 16 + _DIFFERENCES
    y = [
        TOP + (high - value) / spread * LINES if math.isfinite(value) else None
        for value in (*original, *converted)
    ]
    labels = [
        (TOP + 4, _short(high)),
        (TOP + LINES, _short(low)),
        (bottom - _DIFFERENCES + 8, share(worst)),
        (bottom, "0"),
    ]
    ticks = "".join(
        '<text class="tick y" x="%d" y="%.1f">%s</text>\n' % (_LEFT - 3, at, html.escape(text))
        for at, text in labels
    )
    bars = _difference_bars(differences, worst, width, bottom)
    parts = [
        '<path class="axis" d="M%d %dH%d"/>\n' % (_LEFT, TOP + LINES + 4, _RIGHT),
        '<path class="axis" d="M%d %dH%d"/>\n' % (_LEFT, bottom, _RIGHT),
        '<path class="loss original" d="%s"/>\n' % _line(y[: len(original)], width),
        '<path class="loss converted" d="%s"/>\n' % _line(y[len(original) :], width),
        '<path class="bar difference" d="%s"/>\n' % bars[True],
        '<path class="bar not-finite" d="%s"/>\n' % bars[False],
        '<text class="tick" x="%.1f" y="%d">step 0</text>\n' % (_LEFT + width / 2, bottom + 14),
        '<text class="tick" x="%.1f" y="%d">%d</text>\n'
        % (_RIGHT - width / 2, bottom + 14, len(original) - 1)
        if len(original) > 1
        else "",
    ]
    opening = '<svg class="figure chart" viewBox="0 0 %d %d" role="img" aria-label="%s">\n' % (
        WIDTH,
        _CHART,
        html.escape(label),
    )
    return opening + ticks + "".join(parts) + "</svg>"


def _difference_bars(
    differences: Sequence[float], worst: float, width: float, bottom: int
) -> Dict[bool, str]:
    """The paths of the bars: of finite differences, and of others.

    Args:
        differences: one for each step.
        worst: the largest finite one, as high as the chart's lower part.
        width: of a step, in the drawing's units.
        bottom: the vertical position of the axis, in the same units.
    """
    bars = {True: "", False: ""}
    for step, value in enumerate(differences):
        height = _DIFFERENCES * (
            value / worst if math.isfinite(value) and worst else float(not math.isfinite(value))
        )
        x, thick = _LEFT + (step + 0.5) * width, min(8.0, 0.7 * width)
        bars[math.isfinite(value)] += "M%.1f %.1fv%.1fh%.1fv%.1fz" % (
            x - thick / 2,
            bottom,
            -height,
            thick,
            height,
        )
    return bars


def _short(value: float) -> str:
    """A number of at most 7 characters, the width of the margin: `0.00123`, `1,234`, `1.4e5`."""
    if value and not 1e-3 <= abs(value) < 1e5:
        digits, _, power = ("%.1e" % value).partition("e")
        return "%se%d" % (digits, int(power))
    return format(value, ",.0f") if abs(value) >= 1000 else "%.3g" % value


def _line(heights: Sequence[Any], width: float) -> str:
    """A path through finite values; a single point is a short dash."""
    found, pen = [], False
    for step, y in enumerate(heights):
        if y is not None:
            x = _LEFT + (step + 0.5) * width
            found.append("%s%.1f %.1f" % ("L" if pen else "M%.1f %.1fL" % (x - 2, y), x, y))
        pen = y is not None
    return "".join(found)
