"""Measurements of all rows, added up over steps."""

from __future__ import annotations

from typing import Any, Iterable, List, NamedTuple, Sequence

import numpy as np

from graphmp.audit.measure.rows import TensorRow
from graphmp.audit.measure.statistics import Stats, stats
from graphmp.policy.formats import EXPONENTS, Format


def added_up(histograms: Iterable[np.ndarray]) -> np.ndarray:
    """The sum of counts by exponent, int64 of shape [256]; zeros for none."""
    return np.sum([np.zeros(EXPONENTS, np.int64), *histograms], axis=0)


class Range(NamedTuple):
    """The effect of half precision on one tensor.

    Attributes:
        row: the tensor.
        exponents: int64 of shape [256]: the number of the original's values, unscaled, with each
            exponent field of float32.
        elements: the number of values.
        counted: the number of values that the counts below include.
        overflow: the original's values, scaled as in the step, that round to infinity.
        flushed: nonzero ones that round to zero.
        subnormal: those with fewer digits in half precision.
        largest: the largest magnitude of the original's values, unscaled.
        not_finite: infinities and NaN in the converted graph's values.
        original_not_finite: those in the original's.
        error: relative error of the converted graph's finite values, in the 2-norm; NaN without
            values to compare.
        norm: 2-norm of the original's finite values over all steps that count for the error.
        converted_norm: that of the converted graph's.
    """

    row: TensorRow
    exponents: Any
    elements: int
    counted: int
    overflow: int
    flushed: int
    subnormal: int
    largest: float
    not_finite: int
    original_not_finite: int
    error: float
    norm: float = 0.0
    converted_norm: float = 0.0

    def share(self, count: int) -> float:
        """A count as a share of the counted values."""
        return count / self.counted if self.counted else 0.0


class Tally:
    """Adds up the tables of measured steps."""

    def __init__(self, rows: Sequence[TensorRow], format_: Format):
        """All zero at first.

        Args:
            rows: the measured rows; the tables have the originals' rows first, then the converted
                graph's.
            format_: the half-precision format.
        """
        self._rows = rows
        self._format = format_
        self._exponents = np.zeros((len(rows), EXPONENTS), np.int64)
        self._counts = np.zeros((len(rows), 7), np.int64)
        self._largest = np.zeros(len(rows))
        self._squares = np.zeros((len(rows), 3))

    def add(self, sums: Any, maxima: Any, scales: Sequence[float], finite: Sequence[bool]) -> None:
        """Add a step.

        Args:
            sums: float64 of shape [2 * rows, COLUMNS].
            maxima: float32 of shape [2 * rows].
            scales: the factor of each loss in that step.
            finite: whether its gradients were finite; skipped steps don't count for the error.
        """
        count = len(self._rows)
        scale = np.array([scales[row.loss] if row.power else 1.0 for row in self._rows])
        compared = np.array([row.loss < 0 or finite[row.loss] for row in self._rows], bool)
        original = stats(sums[:count], maxima[:count], self._format)
        converted = stats(sums[count:], maxima[count:], self._format)
        self._exponents += _shifted(original.exponents, scale)
        self._counts += self._counted(original, converted)
        self._largest = np.maximum(self._largest, original.largest / scale)
        self._squares[compared] += _squares(original, converted, scale)[compared]

    def _counted(self, original: Stats, converted: Stats) -> Any:
        """Counts of one step.

        An overflow among uncounted elements shows in the largest magnitude.
        """
        bits = original.largest.astype(np.float32).view(np.int32)
        hidden = np.isfinite(original.largest) & (bits >= self._format.overflows)
        not_finite, original_not_finite = (
            np.maximum(s.not_finite, np.isinf(s.largest)) for s in (converted, original)
        )
        overflow = np.maximum(original.overflow, hidden)
        columns = (
            original.elements,
            original.counted,
            overflow,
            original.flushed,
            original.subnormal,
            not_finite,
            original_not_finite,
        )
        return np.stack(columns, -1)

    def ranges(self) -> List[Range]:
        """The result, a Range for each row with values."""
        found = []
        for number, row in enumerate(self._rows):
            elements, counted, overflow, flushed, subnormal, not_finite, original_not_finite = map(
                int, self._counts[number]
            )
            difference, size, converted_size = self._squares[number]
            error = (
                float(np.sqrt(difference / size)) if row.converted and size > 0 else float("nan")
            )
            exponents, largest = self._exponents[number], float(self._largest[number])
            norms = float(np.sqrt(size)), float(np.sqrt(converted_size))
            if elements:
                counts = (
                    elements,
                    counted,
                    overflow,
                    flushed,
                    subnormal,
                    largest,
                    not_finite,
                    original_not_finite,
                )
                found.append(Range(row, exponents, *counts, error, *norms))
        return found


def _squares(original: Stats, converted: Stats, scale: Any) -> Any:
    """Unscaled squares of each row's difference, original and converted values."""
    with np.errstate(invalid="ignore", over="ignore"):  # values that aren't finite are counted
        sketches = (converted.sketch - original.sketch, original.sketch, converted.sketch)
        squares = [np.square(each / scale[:, np.newaxis]).sum(-1) for each in sketches]
    return np.stack(squares, -1)


def _shifted(exponents: Any, scale: Any) -> Any:
    """Histograms of values before a multiplication by powers of two; zeros and non-finite stay."""
    shifts = np.round(np.log2(scale)).astype(int)
    found = np.zeros_like(exponents)
    found[:, [0, -1]] = exponents[:, [0, -1]]
    for shift in set(shifts):
        rows = np.flatnonzero(shifts == shift)
        places = np.clip(np.arange(1, EXPONENTS - 1) - shift, 1, EXPONENTS - 2)
        for place, counts in zip(places, exponents[rows, 1:-1].T):
            found[rows, place] += counts
    return found
