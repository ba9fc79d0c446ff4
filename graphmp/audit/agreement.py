"""Whether a conversion computes the same as the original, as far as half precision can.

1. Losses: within a tenth of the tolerance in every step.
2. Weight gradients: each within the tolerance in the 2-norm, over the steps that a dynamic loss
   scale doesn't skip. If a gradient and its error are small compared with the others of its loss,
   it is rounding noise (a bias before a batch normalisation has nothing else); not if it vanished.
3. Skipped steps: at most every second one.
"""

from __future__ import annotations

import math
from typing import List, Sequence

from graphmp.audit.measure.tally import Range

LOSSES = 0.1  # of the tolerance
_SMALL = 1e-3  # of all gradients of the loss: below this a gradient may be noise
_NOISE = 1e-2  # of all gradients of the loss: the largest noise


def disagreeing(gradients: Sequence[Range], tolerance: float) -> List[Range]:
    """The weight gradients that differ from the original's, in the given order."""
    whole = {
        loss: math.sqrt(sum(r.norm**2 for r in gradients if r.row.loss == loss))
        for loss in {r.row.loss for r in gradients}
    }
    return [r for r in gradients if not _agrees(r, whole[r.row.loss], tolerance)]


def _agrees(found: Range, whole: float, tolerance: float) -> bool:
    if math.isnan(found.error):
        return not found.converted_norm > 0
    if found.error <= tolerance:
        return True
    small = found.norm <= _SMALL * whole and found.error * found.norm <= _NOISE * whole
    return small and found.converted_norm >= found.norm / 2


def loss_difference(original: float, converted: float) -> float:
    """Relative difference of a loss in a step.

    Infinite if only the converted graph's isn't finite.
    """
    if not math.isfinite(converted):
        return math.inf if math.isfinite(original) else 0.0
    return abs(converted - original) / max(abs(original), 1e-12)
