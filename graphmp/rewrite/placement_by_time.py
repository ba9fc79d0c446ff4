"""Placing the casts by measured times: the same minimum cut, over nanoseconds.

Ops on the allow list are free here too: they cost their own time in either dtype.

- a node that is slower in float32: source -> u, by the difference less its standard error, so that
  noise buys no casts; one that is slower in half: u -> sink;
- casts, and what all-reduces and comparisons read, as in `placement.py`;
- nodes whose kernel is part of another's have its dtype, if both are free: u <-> v, infinite.

Units that painting made float32, and those that --force_compute made half, stay so. Where the whole
step was timed with the same placement, and was faster in float32 or placed by bytes, that is taken.
A placement that saves less than 2% of a step isn't worth its casts: all that is free is float32.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import math
from typing import AbstractSet, Callable, Dict, Iterator, List, NamedTuple, Tuple

from graphmp.policy.reason import MEASURED, USER_RULE, Reason
from graphmp.rewrite.groups import Groups
from graphmp.rewrite.node_times import NodeTimes
from graphmp.rewrite.paint import FLOAT, FREE, HALF, Paint
from graphmp.rewrite.placement import SINK, SOURCE, Arc, by_cut, place, tensor_arcs, vertex_of
from graphmp.rewrite.units import TypedGraph
from graphmp.tuning import prediction as predictions
from graphmp.tuning.costs import BYTES, FLOAT32, OPERATIONS, TUNED, Costs
from graphmp.tuning.costs import HALF as HALVED

_INFINITE = float("inf")
_WORTH = 0.02  # of a step: what is predicted to save less stays float32
_NOTABLE = 0.01  # of a node's time: cheaper casts of its inputs to float32 aren't mentioned


class Timed(NamedTuple):
    """A placement by time, and what it is expected to gain.

    Attributes:
        placed: HALF or FLOAT for each unit.
        nodes: the number of nodes by how their times are known.
        saved: nanoseconds of a step below float32, by name: "bytes" for the placement by bytes,
            "half" with all that is free in half precision, "tuned" for this one.
        digest: of the nodes in half precision.
        kept: "tuned"; or what was faster as a whole, "float32" or "bytes".
    """

    placed: List[Paint]
    nodes: Dict[str, int]
    saved: Dict[str, float]
    digest: str
    kept: str


def place_by_time(
    graph: TypedGraph,
    groups: Groups,
    painted: List[Paint],
    compute_dtype: str,
    times: NodeTimes,
    costs: Costs,
) -> Timed:
    """Decide on every unit by measured times.

    Args:
        graph: a graph body.
        groups: units that share a dtype.
        painted: the result of painting.
        compute_dtype: "float16" or "bfloat16".
        times: of the body's nodes.
        costs: what was measured.
    """
    loose = loosened(graph, groups, painted)
    arcs = [*_arcs(graph, groups, loose, compute_dtype, times)]
    placed = by_cut(graph, groups, loose, arcs, lambda unit, p: p.reason)
    step = _Step(graph, groups, times)
    by_bytes = place(graph, groups, painted, compute_dtype)
    saved = {
        name: -step.cost(each)
        for name, each in ((BYTES, by_bytes), (HALVED, all_half(loose)), (TUNED, placed))
    }
    digest = digest_of(graph, placed)
    kept = costs.faster if costs.faster and costs.placement in ("", digest) else TUNED
    if kept == FLOAT32:
        placed = _in_float32(loose, loose, _whole_step(costs, compute_dtype))
    elif kept == BYTES:
        placed = by_bytes
    else:
        placed = _explained(placed, loose, step, compute_dtype)
        in_float32 = _in_float32(placed, loose, _little(compute_dtype))
        if step.cost(in_float32) - step.cost(placed) < _least_saved(costs):
            placed, kept = in_float32, FLOAT32
    return Timed(placed, step.known(), saved, digest, kept)


def _in_float32(placed: List[Paint], loose: List[Paint], why: str) -> List[Paint]:
    """All that is free in float32; what isn't yet gets a reason."""
    reason = Reason(MEASURED, why)
    return [
        Paint(FLOAT, reason) if free.colour == FREE and p.colour != FLOAT else p
        for p, free in zip(placed, loose)
    ]


def all_half(loose: List[Paint]) -> List[Paint]:
    """All that is free in half precision."""
    return [p._replace(colour=HALF) if p.colour == FREE else p for p in loose]


def loosened(graph: TypedGraph, groups: Groups, painted: List[Paint]) -> List[Paint]:
    """Painted units, those that are half by the policy alone free.

    Not what --force_compute and --allreduce_half ask for.
    """
    fixed = {
        groups.of[number]
        for number, p in enumerate(painted)
        if p.colour != FREE
        and (
            p.colour == FLOAT
            or p.reason.kind == USER_RULE
            or graph.units[number].node in graph.joined
        )
    }
    return [
        p._replace(colour=FREE) if p.colour == HALF and groups.of[number] not in fixed else p
        for number, p in enumerate(painted)
    ]


def digest_of(graph: TypedGraph, placed: List[Paint]) -> str:
    """A short digest of the nodes in half precision."""
    half = sorted({unit.node for unit, p in zip(graph.units, placed) if p.colour == HALF})
    return hashlib.sha256("\n".join(half).encode("utf-8")).hexdigest()[:16]


def _arcs(
    graph: TypedGraph,
    groups: Groups,
    painted: List[Paint],
    compute_dtype: str,
    times: NodeTimes,
) -> Iterator[Arc]:
    """The arcs of nodes and tensors; those without a cost are left out."""
    vertex = functools.partial(vertex_of, groups, painted)
    for name in graph.view.nodes:
        units = graph.units_of(name)
        if not units or vertex(units[0]) <= SINK:
            continue
        time, v = times.node(name), vertex(units[0])
        if time.float32 > time.half + time.doubt:
            yield SOURCE, v, time.float32 - time.half - time.doubt
        elif time.half > time.float32:
            yield v, SINK, time.half - time.float32
        anchor = graph.units_of(time.within) if time.within in graph.view.nodes else ()
        if anchor and vertex(anchor[0]) > SINK:
            yield v, vertex(anchor[0]), _INFINITE
            yield vertex(anchor[0]), v, _INFINITE
    for arc in tensor_arcs(graph, groups, painted, compute_dtype, times.tensor):
        if arc[2] > 0:
            yield arc


class _Step:
    """The time of a step by the dtypes of its nodes."""

    def __init__(self, graph: TypedGraph, groups: Groups, times: NodeTimes):
        self.graph = graph
        self.groups = groups
        self.times = times
        self._tensors = [
            (port, producer, [graph.reader(consumer) for consumer in consumers])
            for port, producer, consumers in graph.float32_tensors()
            if graph.view.nodes[port.node].op != "Const"
        ]
        self._near: Dict[int, List[int]] = collections.defaultdict(list)
        for number, (_, producer, readers) in enumerate(self._tensors):
            for unit in {producer, *readers}:
                if unit >= 0:
                    self._near[groups.of[unit]].append(number)

    def cost(self, placed: List[Paint]) -> float:
        """Nanoseconds of a step above those in float32."""
        half = {number for number, p in enumerate(placed) if p.colour == HALF}
        nodes = (self._main(number) for number in half)
        total = sum(time.half - time.float32 for time in nodes)
        return total + sum(
            self._cast(number, half.__contains__) for number in range(len(self._tensors))
        )

    def known(self) -> Dict[str, int]:
        """The number of nodes by how their times are known."""
        counted: Dict[str, int] = dict.fromkeys(
            (predictions.MEASURED, predictions.PREDICTED, predictions.UNKNOWN), 0
        )
        for name in self.graph.view.nodes:
            if self.graph.units_of(name):
                counted[self.times.node(name).how] += 1
        return counted

    def sides(self, group: int, half: AbstractSet[int]) -> Tuple[float, float, float, float]:
        """Nanoseconds of a group in each dtype, and of the casts that each one needs.

        Args:
            group: its number.
            half: all units that are half.
        """
        members = set(self.groups.members[group])
        own = [self._main(number) for number in members]
        float32, narrow = sum(time.float32 for time in own), sum(time.half for time in own)
        wide_casts = narrow_casts = 0.0
        for number in set(self._near[group]):
            as_wide = self._cast(number, lambda unit: unit in half and unit not in members)
            as_half = self._cast(number, lambda unit: unit in half or unit in members)
            wide_casts += max(0.0, as_wide - as_half)
            narrow_casts += max(0.0, as_half - as_wide)
        return float32, narrow, wide_casts, narrow_casts

    def kernel_of(self, unit: int) -> int:
        """The group of a unit, or of the node whose kernel its node is part of."""
        within = self.times.node(self.graph.units[unit].node).within
        anchor = self.graph.units_of(within) if within in self.graph.view.nodes else ()
        return self.groups.of[anchor[0] if anchor else unit]

    def how(self, group: int) -> str:
        """How the times of a group are known: by the least certain of its slower nodes."""
        kinds = {self._main(number).how for number in self.groups.members[group]}
        order = (predictions.UNKNOWN, predictions.PREDICTED, predictions.MEASURED)
        return next(kind for kind in order if kind in kinds)

    def _main(self, number: int) -> predictions.NodeTime:
        """The time of a unit's node; nothing for its further units."""
        name = self.graph.units[number].node
        first = self.graph.units_of(name)[0] == number
        return self.times.node(name) if first else predictions.NOTHING

    def _cast(self, number: int, is_half: Callable[[int], bool]) -> float:
        """Nanoseconds of the casts of a tensor."""
        port, producer, readers = self._tensors[number]
        from_half = is_half(producer)
        others = [unit for unit in readers if is_half(unit) != from_half]
        if not others:
            return 0.0
        cost = self.times.tensor(port)
        return cost.up if from_half else cost.down


def _explained(
    placed: List[Paint], loose: List[Paint], step: _Step, compute_dtype: str
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


def _reason(step: _Step, group: int, half: AbstractSet[int], compute_dtype: str) -> Reason:
    """`41 µs in float32, 63 µs in float16 with its casts`."""
    how = step.how(group)
    if how == predictions.UNKNOWN:
        return Reason(MEASURED, "no time of its op is known, and float32 needs fewer casts here")
    float32, narrow, wide_casts, narrow_casts = step.sides(group, half)
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


def _least_saved(costs: Costs) -> float:
    """Nanoseconds that a placement has to save to be worth its casts."""
    step = costs.steps.get(OPERATIONS % FLOAT32)
    return 0.0 if step is None else _WORTH * step.nanoseconds


def _little(compute_dtype: str) -> str:
    """`the best placement of float16 saves less than 2% of a step`."""
    return "the best placement of %s saves less than %.0f%% of a step" % (
        compute_dtype,
        100 * _WORTH,
    )


def _whole_step(costs: Costs, compute_dtype: str) -> str:
    """`the whole step takes 50 ms in float32, 53 ms with parts of it in bfloat16`."""
    part = TUNED if TUNED in costs.steps else HALVED
    said = []
    for name in (FLOAT32, part):
        time = costs.steps.get(name) or costs.steps.get(OPERATIONS % name)
        given_up = "more than " if time is not None and math.isinf(time.high) else ""
        said.append(given_up + duration(time.nanoseconds) if time is not None else "?")
    what = "parts of it" if part == TUNED else "what may be"
    return "the whole step takes %s in float32, %s with %s in %s" % (*said, what, compute_dtype)
