"""Measured times as the reasons of what stays float32."""

from __future__ import annotations

import math
from typing import AbstractSet, Dict, List

from graphmp.policy.reason import MEASURED, Reason
from graphmp.rewrite.painting.groups import Groups
from graphmp.rewrite.painting.paint import FLOAT, FREE, HALF, Paint
from graphmp.rewrite.placement.step_times import StepTimes
from graphmp.tuning import prediction as predictions
from graphmp.tuning.costs import FLOAT32, OPERATIONS, TUNED, Costs
from graphmp.tuning.costs import HALF as HALVED

WORTH = 0.02  # of a step: what is predicted to save less stays float32
_NOTABLE = 0.01  # of a node's time: cheaper casts of its inputs to float32 aren't mentioned


def with_regions(
    placed: List[Paint], loose: List[Paint], groups: Groups, apart: AbstractSet[int]
) -> List[Paint]:
    """The placement, with timed steps as the reason of the groups that they decided on."""
    reason = Reason(MEASURED, "steps are faster with this region in float32")
    return [
        p._replace(reason=reason)
        if groups.of[number] in apart and p.colour == FLOAT and loose[number].colour == FREE
        else p
        for number, p in enumerate(placed)
    ]


def explained(
    placed: List[Paint], loose: List[Paint], step: StepTimes, compute_dtype: str
) -> List[Paint]:
    """The placement, with times as the reason of what was free and is float32."""
    half = {number for number, p in enumerate(placed) if p.colour == HALF}
    reasons: Dict[int, Reason] = {}
    explained = []
    for number, p in enumerate(placed):
        if p.colour == FLOAT and loose[number].colour == FREE:
            group = step.kernel_of(number)
            if group not in reasons:
                reasons[group] = _reason(step, group, half, compute_dtype)
            constant = step.graph.node(number).op == "Const"
            explained.append(p if constant else p._replace(reason=reasons[group]))
        else:
            explained.append(p)
    return explained


def _reason(step: StepTimes, group: int, half: AbstractSet[int], compute_dtype: str) -> Reason:
    """`41 µs in float32, 63 µs in float16 with its casts`."""
    how = step.how(group)
    if how == predictions.UNKNOWN:
        return Reason(MEASURED, "no time of its op is known, and float32 needs fewer casts here")
    float32, narrow, wide_casts, narrow_casts = step.sides(group, half)
    if not float32 and not narrow:
        return Reason(MEASURED, "takes no time in a step, and float32 needs fewer casts here")
    sides = [
        "%s in %s%s"
        % (duration(time + casts), dtype, " with its casts" if casts > least * time else "")
        for time, casts, dtype, least in (
            (float32, wide_casts, FLOAT32, _NOTABLE),
            (narrow, narrow_casts, compute_dtype, 0.0),
        )
    ]
    by = " (predicted)" if how == predictions.PREDICTED else ""
    if narrow + narrow_casts < float32 + wide_casts:
        by += ", less of a difference than the measurements spread"
    return Reason(MEASURED, ", ".join(sides) + by)


def duration(nanoseconds: float) -> str:
    """`41 µs`, `1.2 ms`."""
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        if nanoseconds < limit * 0.9995:
            return "%.3g %s" % (nanoseconds / limit * 1e3, unit)
    return "%.3g s" % (nanoseconds / 1e9)


def little(compute_dtype: str) -> str:
    """`the best placement of float16 saves less than 2% of a step`."""
    return "the best placement of %s saves less than %.0f%% of a step" % (
        compute_dtype,
        100 * WORTH,
    )


def whole_step(costs: Costs, compute_dtype: str) -> str:
    """`the whole step takes 50 ms in float32, 53 ms with parts of it in bfloat16`."""
    part = TUNED if TUNED in costs.steps else HALVED
    said = []
    for name in (FLOAT32, part):
        time = costs.steps.get(name) or costs.steps.get(OPERATIONS % name)
        given_up = "more than " if time is not None and math.isinf(time.high) else ""
        said.append(given_up + duration(time.nanoseconds) if time is not None else "?")
    what = "parts of it" if part == TUNED else "what may be"
    return "the whole step takes %s in float32, %s with %s in %s" % (*said, what, compute_dtype)
