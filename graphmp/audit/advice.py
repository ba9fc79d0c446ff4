"""Advice on the loss scale: the power of two that leaves headroom and flushes the least."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from graphmp.audit.measure.tally import added_up
from graphmp.policy.formats import EXPONENT_BIAS, Format

HEADROOM = 2  # powers of two above the largest gradient: gradients grow in training
# notable share of gradients that vanish at the best scale; long tails lose less, harmlessly
_MUCH = 0.01


class Advice(NamedTuple):
    """The range of one loss's gradients within a half-precision format.

    Attributes:
        scale: the loss scale to use, a power of two; 1 if no gradient needs one, below 1 if
            gradients overflow.
        largest: exponent of the largest gradient; None without gradients.
        powers: the number of powers of two in the format.
        used: the number of them that unscaled gradients use.
        unused_above: the number of them above the largest.
        flushed: share of the nonzero gradients that become zero without a scale.
        flushed_scaled: this share with the advised scale.
        flushed_now: this share with the present scale.
        smallest: exponent of the smallest nonzero gradient; None without one.
        overflowing: share of the nonzero gradients that overflow without a scale.
    """

    scale: float
    largest: Any
    powers: int
    used: int
    unused_above: int
    flushed: float
    flushed_scaled: float
    flushed_now: float
    smallest: Any = None
    overflowing: float = 0.0

    @property
    def too_wide(self) -> bool:
        """Whether no loss scale helps, because gradients exceed the format's range.

        Many of the small ones then vanish.
        """
        return (
            self.largest is not None
            and self.largest - self.smallest >= self.powers
            and self.flushed_scaled >= _MUCH
        )


def advise(histograms: Sequence[Any], format_: Format, current: float) -> Advice:
    """Derive advice from the exponents of one loss's unscaled gradients.

    Args:
        histograms: int64 of shape [256] each: counts by float32's exponent field; the first and the
            last don't count.
        format_: the format of gradients.
        current: the present scale.
    """
    counts = added_up(histograms)[1:-1]
    exponents = np.arange(1, 255) - EXPONENT_BIAS
    present = exponents[counts > 0]
    if not present.size:
        return Advice(1.0, None, format_.powers, 0, format_.powers, 0.0, 0.0, 0.0)
    largest, smallest = int(present.max()), int(present.min())
    all_normal = smallest >= format_.normal
    scale = (
        1.0
        if all_normal and largest <= format_.top - HEADROOM
        else 2.0 ** min(format_.top - HEADROOM - largest, EXPONENT_BIAS)
    )  # float32's largest exponent
    held = present[(present >= format_.bottom) & (present <= format_.top)]

    def flushed(by: float) -> float:
        return float(counts[exponents + np.log2(by) < format_.bottom - 1].sum() / counts.sum())

    shares = flushed(1.0), flushed(scale), flushed(current)
    overflowing = float(counts[exponents > format_.top].sum() / counts.sum())
    unused_above = max(0, format_.top - largest)
    used = format_.powers, len(held), unused_above
    return Advice(scale, largest, *used, *shares, smallest, overflowing)
