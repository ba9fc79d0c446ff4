"""The times of casts by size, of those in a step and of those timed alone."""

from __future__ import annotations

import collections
from typing import Dict, Iterable, List, Sequence, Tuple

from graphmp.tuning.costs import CastTime, Time, median_time, quickest
from graphmp.tuning.prediction import interpolated


def cast_times(samples: Iterable[Tuple[str, int, Sequence[float]]]) -> Tuple[CastTime, ...]:
    """The times of casts by dtype and size; equal ones count alike.

    Args:
        samples: dtype, elements and nanoseconds of each cast. Of each the quickest samples count,
            so that the size doesn't get the time of the cast that is quickest by its place.
    """
    pooled: Dict[Tuple[str, int], List[float]] = collections.defaultdict(list)
    for to, elements, times in samples:
        pooled[to, elements] += quickest(times)
    return tuple(
        CastTime(to, elements, median_time(times))
        for (to, elements), times in sorted(pooled.items())
    )


def slower(casts: Sequence[CastTime], others: Sequence[CastTime]) -> float:
    """By which factor casts take longer than others of their sizes, the median; at least 1."""
    curve = sorted((float(other.elements), other.time.nanoseconds) for other in others)
    ratios = [
        cast.time.nanoseconds / max(1.0, interpolated(curve, float(cast.elements)))
        for cast in casts
        if curve and cast.elements
    ]
    return max(1.0, median_time(ratios).nanoseconds) if ratios else 1.0


def scaled(cast: CastTime, factor: float) -> CastTime:
    """A cast that takes longer by a factor."""
    time = cast.time
    return cast._replace(
        time=Time(factor * time.nanoseconds, factor * time.low, factor * time.high, time.samples)
    )
