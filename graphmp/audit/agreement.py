"""Whether a conversion computes what the original does, as far as half precision can.

1. Losses: within a tenth of the tolerance in every step.
2. Weight gradients: each within the tolerance in the 2-norm, over the steps that a dynamic loss scale doesn't skip. A gradient that is
   small beside the others of its loss, and so is its error, is rounding noise (a bias ahead of a batch normalisation has no other);
   but not one that vanished.
3. Skipped steps: at most every second one.
"""

from __future__ import annotations

import math
from typing import List, Sequence

from graphmp.audit.measure.tally import Range

LOSSES = 0.1  # of the tolerance
_SMALL = 1e-3  # of all gradients of the loss: what is looked at for noise
_NOISE = 1e-2  # of them: the most that noise may be


def disagreeing(gradients: Sequence[Range], tolerance: float) -> List[Range]:
    """The weight gradients that are not what the original's are, in the order given."""
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
    """Relative difference of a loss in a step; infinite where the converted graph's alone isn't finite."""
    if not math.isfinite(converted):
        return math.inf if math.isfinite(original) else 0.0
    return abs(converted - original) / max(abs(original), 1e-12)
