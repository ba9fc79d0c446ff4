"""What was measured of all rows, added up over steps."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence

import numpy as np

from graphmp.numerics.measure import Stats, stats
from graphmp.numerics.rows import Row
from graphmp.policy.formats import Format

EXPONENTS = 256


class Range(NamedTuple):
    """What half precision does to one tensor.

    Attributes:
        row: the tensor.
        exponents: int64 of shape [256]: how many of the original's values have each exponent field of float32, not scaled.
        elements: how many values were seen.
        counted: how many of them the counts below count.
        overflow: original's values, scaled as in the step, that half precision rounds to infinity.
        flushed: those other than zero that it rounds to zero.
        subnormal: those that it holds with fewer digits.
        largest: the largest magnitude of the original's values, not scaled.
        not_finite: infinities and NaN in the converted graph's values.
        original_not_finite: those in the original's.
        error: relative error of the converted graph's finite values, in the 2-norm; NaN where there is nothing to compare.
        norm: 2-norm of the original's finite values over all steps that count for the error.
        converted_norm: that of the converted graph's.
    """

    row: Row
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
        """A count as a share of what was counted."""
        return count / self.counted if self.counted else 0.0


class Tally:
    """Adds up the tables of measured steps."""

    def __init__(self, rows: Sequence[Row], format_: Format):
        """Starts at nothing.

        Args:
            rows: what is measured; the tables have the originals' rows first, then the converted graph's.
            format_: what is counted against.
        """
        self._rows = rows
        self._format = format_
        self._exponents = np.zeros((len(rows), EXPONENTS), np.int64)
        self._counts = np.zeros((len(rows), 7), np.int64)
        self._largest = np.zeros(len(rows))
        self._squares = np.zeros((len(rows), 3))

    def add(self, sums: Any, maxima: Any, scales: Sequence[float], finite: Sequence[bool]) -> None:
        """Adds a step.

        Args:
            sums: float64 of shape [2 * rows, COLUMNS].
            maxima: float32 of shape [2 * rows].
            scales: what each loss was multiplied by in that step.
            finite: whether its gradients were finite; those of a skipped step don't count for the error.
        """
        count = len(self._rows)
        for number, row in enumerate(self._rows):
            scale = scales[row.loss] if row.loss >= 0 else 1.0
            original = stats(sums[number], maxima[number], self._format)
            converted = stats(sums[count + number], maxima[count + number], self._format)
            self._exponents[number] += _shifted(original.exponents, scale)
            self._counts[number] += self._counted(original, converted)
            self._largest[number] = max(self._largest[number], original.largest / scale)
            if row.loss < 0 or finite[row.loss]:
                self._squares[number] += _squares(original, converted, scale)

    def _counted(self, original: Stats, converted: Stats) -> List[int]:
        """Counts of one step; an overflow that lies between the elements that are counted shows in the largest."""
        hidden = np.isfinite(original.largest) and np.float32(original.largest).view(np.int32) >= self._format.overflows
        not_finite, original_not_finite = (s.not_finite or int(np.isinf(s.largest)) for s in (converted, original))
        overflow = original.overflow or int(hidden)
        return [original.elements, original.counted, overflow, original.flushed, original.subnormal, not_finite, original_not_finite]

    def ranges(self) -> List[Range]:
        """The result, a Range for each row that was seen."""
        found = []
        for number, row in enumerate(self._rows):
            elements, counted, overflow, flushed, subnormal, not_finite, original_not_finite = map(int, self._counts[number])
            difference, size, converted_size = self._squares[number]
            error = float(np.sqrt(difference / size)) if row.converted and size > 0 else float("nan")
            exponents, largest = self._exponents[number], float(self._largest[number])
            norms = float(np.sqrt(size)), float(np.sqrt(converted_size))
            if elements:
                counts = (elements, counted, overflow, flushed, subnormal, largest, not_finite, original_not_finite)
                found.append(Range(row, exponents, *counts, error, *norms))
        return found


def _squares(original: Stats, converted: Stats, scale: float) -> List[float]:
    difference = (converted.sketch - original.sketch) / scale
    return [float(difference @ difference), _square(original.sketch / scale), _square(converted.sketch / scale)]


def _square(sketch: Any) -> float:
    return float(sketch @ sketch)


def _shifted(exponents: Any, scale: float) -> Any:
    """The histogram of values that were multiplied by a power of two, as it was before; zeros and what isn't finite stay."""
    shift = int(np.round(np.log2(scale)))
    if shift == 0:
        return exponents
    found = np.zeros_like(exponents)
    places = np.clip(np.arange(1, EXPONENTS - 1) - shift, 1, EXPONENTS - 2)
    np.add.at(found, places, exponents[1:-1])
    found[[0, -1]] = exponents[[0, -1]]
    return found
