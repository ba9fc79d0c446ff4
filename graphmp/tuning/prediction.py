"""The time of any operation and cast by measured ones.

1. A node of the measured graph, by its name: the time that was measured of it.
2. Another node, by its signature; unknown dimensions fit any. Where nodes of one signature take
   different times, the middle one counts.
3. An operation that wasn't measured: by measured ones of its op, interpolated by the amount of
   work; beyond the largest and smallest in proportion to it.
4. An op without measurements: as the ops of its class (products, others) per unit of work. With
   none of these nothing is known of it, and neither type is preferred.
5. Times in half precision, and of casts, are multiplied by `half_scale`: how much longer they take
   in whole steps than in traces, if float32's are taken as they are.
"""

from __future__ import annotations

import bisect
import collections
import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graphmp.tuning.costs import Costs, OperationSignature, OperationTime, Time
from graphmp.tuning.signatures import FUSED, fits, work

MEASURED, PREDICTED, UNKNOWN = "measured", "predicted", "unknown"
_DEVIATIONS = 1.96  # standard errors in half of a 95% interval
_LEAST_HELD_BACK = 3  # measurements of an op, of which one is held back
Curve = List[Tuple[float, float]]  # work and nanoseconds, ascending


class NodeTime(NamedTuple):
    """The time of a node in a step.

    Attributes:
        float32: nanoseconds in float32.
        half: nanoseconds in half precision.
        how: MEASURED, PREDICTED or UNKNOWN.
        within: the node whose kernel it is part of; empty if there is none.
        doubt: nanoseconds by which the difference may be wrong: its standard error.
    """

    float32: float
    half: float
    how: str
    within: str = ""
    doubt: float = 0.0


NOTHING = NodeTime(0.0, 0.0, MEASURED)


class HeldBack(NamedTuple):
    """How well measurements are predicted from the others.

    Attributes:
        measurements: those that were predicted.
        error: the relative error that measurements of half of the time stay below.
        worst: the relative error that those of nine tenths of the time stay below.
    """

    measurements: int
    error: float
    worst: float


class Prediction:
    """Times by measured costs."""

    def __init__(self, costs: Costs):
        """Args: costs: the measured costs."""
        self.costs = costs
        self._by_op: Dict[str, List[OperationTime]] = collections.defaultdict(list)
        for each in costs.measurements:
            self._by_op[each.signature.op].append(each)
        self._curves = (_Curves(costs, 0), _Curves(costs, 1))
        self._casts = {
            to: sorted(
                (max(1.0, float(cast.elements)), cast.time.nanoseconds)
                for cast in costs.casts
                if cast.to == to
            )
            for to in ("float32", "half")
        }

    def node(self, name: str, signature: OperationSignature, trips: float) -> NodeTime:
        """The time of a node in a step.

        Args:
            name: the node's path, as of `in_body`.
            signature: its signature; dimensions may be unknown.
            trips: its runs in a step, if it isn't a node of the measured graph.
        """
        known = self.costs.nodes.get(name)
        if known is not None:
            if known.measurement < 0:
                return NOTHING._replace(within=known.within)
            found = self.costs.measurements[known.measurement]
            if _same(signature, found.signature):
                return self._of(found, known.runs)._replace(within=known.within)
        alike = [each for each in self._by_op[signature.op] if fits(signature, each.signature)]
        if alike:
            return self._of(self._nearest(signature, alike), trips)
        return self._predicted(signature, trips)

    def cast(self, to: str, elements: float) -> float:
        """Nanoseconds of a cast to "float32" or "half", with the start of its kernel."""
        curve = self._casts[to] or self._casts["half" if to == "float32" else "float32"]
        kernel = interpolated(curve, max(1.0, elements)) if curve else 0.0
        return self.costs.overhead + self.costs.half_scale * kernel

    def held_back(self) -> Optional[HeldBack]:
        """How well measurements are predicted without themselves; None if there are too few."""
        errors = []
        for curves in self._curves:
            errors += curves.errors()
        if not errors:
            return None
        return HeldBack(len(errors), _below(errors, 0.5), _below(errors, 0.9))

    def _nearest(
        self, signature: OperationSignature, alike: Sequence[OperationTime]
    ) -> OperationTime:
        """The measurement of nearly as much work; of several of the same work the middle one."""
        wanted = work(signature, self.costs.batch_size)
        far = [abs(math.log(work(each.signature) / wanted)) for each in alike]
        near = [each for each, distance in zip(alike, far) if distance == min(far)]
        return sorted(near, key=_in_both)[(len(near) - 1) // 2]

    def _of(self, found: OperationTime, runs: float) -> NodeTime:
        """A measured time; a missing type is predicted."""
        times = [
            curves.time(found.signature, None) if time is None else time.nanoseconds
            for time, curves in zip((found.float32, found.half), self._curves)
        ]
        if found.float32 is None or found.half is None:
            return self._node_time(times, runs, PREDICTED)
        doubt = runs * math.hypot(_error(found.float32), _error(found.half))
        return self._node_time(times, runs, MEASURED)._replace(doubt=doubt)

    def _predicted(self, signature: OperationSignature, runs: float) -> NodeTime:
        times = [curves.time(signature, self.costs.batch_size) for curves in self._curves]
        return self._node_time(times, runs, PREDICTED)

    def _node_time(self, times: Sequence[Optional[float]], runs: float, how: str) -> NodeTime:
        """The time of some runs, in half precision as in whole steps."""
        float32, half = times
        if float32 is None or half is None:
            return NodeTime(0.0, 0.0, UNKNOWN)
        return NodeTime(float32 * runs, half * self.costs.half_scale * runs, how)


def _in_both(found: OperationTime) -> float:
    """Nanoseconds in both types together."""
    return sum(time.nanoseconds for time in (found.float32, found.half) if time is not None)


def _error(time: Time) -> float:
    """The standard error of a median, by its 95% interval."""
    return 0.0 if math.isinf(time.high) else (time.high - time.low) / (2 * _DEVIATIONS)


class _Curves:
    """Nanoseconds by work, for each op, in one type."""

    def __init__(self, costs: Costs, place: int):
        self._points: Dict[str, Curve] = collections.defaultdict(list)
        self._each: List[Tuple[str, float, float]] = []
        for each in costs.measurements:
            time = (each.float32, each.half)[place]
            if time is not None and dict(each.signature.attributes).get(FUSED) is None:
                self._points[each.signature.op].append((work(each.signature), time.nanoseconds))
        pooled: Dict[bool, List[float]] = collections.defaultdict(list)
        for op, curve in self._points.items():
            curve.sort()
            pooled[_is_product(op)] += [ns / size for size, ns in curve]
        self._per_work = {kind: float(np.median(rates)) for kind, rates in pooled.items()}

    def time(self, signature: OperationSignature, batch_size: Optional[int]) -> Optional[float]:
        """Nanoseconds of an operation; None if nothing alike was measured."""
        size = work(signature, batch_size)
        curve = self._points.get(signature.op)
        if curve:
            return interpolated(curve, size)
        rate = self._per_work.get(_is_product(signature.op))
        return None if rate is None else rate * size

    def errors(self) -> List[Tuple[float, float]]:
        """Relative errors of measurements predicted by the others of their op; and their times."""
        found = []
        for curve in self._points.values():
            for place, (size, nanoseconds) in enumerate(curve):
                others = curve[:place] + curve[place + 1 :]
                if len(curve) >= _LEAST_HELD_BACK and nanoseconds > 0:
                    error = abs(interpolated(others, size) / nanoseconds - 1)
                    found.append((error, nanoseconds))
        return found


def _below(errors: Sequence[Tuple[float, float]], share: float) -> float:
    """The error that a share of the time stays below."""
    ordered = sorted(errors)
    times = np.cumsum([time for _, time in ordered])
    return ordered[int(np.searchsorted(times, share * times[-1]))][0]


def interpolated(curve: Curve, size: float) -> float:
    """Nanoseconds for some work by the neighbours on a curve, linearly in logarithms.

    Beyond the last point in proportion to the work; before the first one no less than half of it.
    """
    sizes = [point for point, _ in curve]
    place = bisect.bisect_left(sizes, size)
    if place < len(curve) and sizes[place] == size:
        return float(np.median([ns for point, ns in curve if point == size]))
    if place == len(curve):
        return curve[-1][1] * size / sizes[-1]
    if place == 0:
        return curve[0][1] * max(0.5, size / sizes[0])
    (left, low), (right, high) = curve[place - 1], curve[place]
    share = math.log(size / left) / math.log(right / left)
    return math.exp((1 - share) * math.log(max(low, 1e-3)) + share * math.log(max(high, 1e-3)))


def _is_product(op: str) -> bool:
    return "MatMul" in op or "Conv" in op


def _same(signature: OperationSignature, measured: OperationSignature) -> bool:
    """Whether a node is the measured one: kernels that it includes don't count."""
    attributes = tuple(pair for pair in measured.attributes if pair[0] != FUSED)
    return fits(signature, measured._replace(attributes=attributes))
