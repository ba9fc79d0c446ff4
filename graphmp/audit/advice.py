"""Which loss scale a model's gradients ask for: the power of two that leaves headroom and flushes least."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from graphmp.policy.formats import EXPONENT_BIAS, Format

HEADROOM = 2  # powers of two left free above the largest gradient: gradients grow in training
_MUCH = 0.01  # share of the gradients that vanish with the best scale, worth a word; that of long tails is smaller, and harmless


class Advice(NamedTuple):
    """How the gradients of one loss lie in a half-precision format.

    Attributes:
        scale: the loss scale to use, a power of two; 1 where no gradient needs one.
        largest: exponent of the largest gradient; None where there is none.
        powers: how many powers of two the format has.
        used: how many of them unscaled gradients use.
        unused_above: how many lie above the largest.
        flushed: share of the gradients other than zero that become zero without a scale.
        flushed_scaled: the share that does with the scale advised.
        flushed_now: the share that did with the scale in force.
        smallest: exponent of the smallest gradient other than zero; None where there is none.
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

    @property
    def too_wide(self) -> bool:
        """Whether no loss scale helps: largest and smallest lie further apart than the format holds, and many of the small ones vanish."""
        return (
            self.largest is not None
            and self.largest - self.smallest >= self.powers
            and self.flushed_scaled >= _MUCH
        )


def advise(histograms: Sequence[Any], format_: Format, current: float) -> Advice:
    """Reads the exponents of the gradients of one loss, not scaled.

    Args:
        histograms: int64 of shape [256] each: counts by float32's exponent field; the first and the last don't count.
        format_: what gradients are held in.
        current: the scale in force.
    """
    counts = np.sum([np.zeros(256, np.int64), *histograms], axis=0)[1:-1]
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
    )  # float32's top
    held = present[(present >= format_.bottom) & (present <= format_.top)]

    def flushed(by: float) -> float:
        return float(counts[exponents + np.log2(by) < format_.bottom - 1].sum() / counts.sum())

    shares = flushed(1.0), flushed(scale), flushed(current)
    return Advice(
        scale, largest, format_.powers, len(held), max(0, format_.top - largest), *shares, smallest
    )
