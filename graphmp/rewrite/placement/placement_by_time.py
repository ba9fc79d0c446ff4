"""Placing the casts by measured times: the same minimum cut, over nanoseconds.

Ops on the allow list are free here too: they cost their own time in either dtype.

- a node that is slower in float32: source -> u, by the difference less its standard error, so that
  noise buys no casts; one that is slower in half: u -> sink;
- casts, and what all-reduces and comparisons read, as in `placement.py`;
- nodes whose kernel is part of another's have its dtype, if both are free: u <-> v, infinite.

Units that painting made float32, and those that --force_compute made half, stay so. Where the whole
step was timed with the same placement, and was faster in float32 or placed by bytes, that is taken.
`float32_nodes`, with which in float32 it was faster, are float32, and the cut is made again around
them. Without such nodes a placement that saves less than 2% of a step isn't worth its casts: all
that is free is float32.
"""

from __future__ import annotations

import functools
import hashlib
from typing import AbstractSet, Dict, Iterator, List, NamedTuple, Sequence

from graphmp.graph.shapes.shapes import dimensions_of
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.reason import MEASURED, USER_RULE, Reason
from graphmp.rewrite.painting.groups import Groups
from graphmp.rewrite.painting.paint import FLOAT, FREE, HALF, Paint
from graphmp.rewrite.placement.node_times import NodeTimes
from graphmp.rewrite.placement.placement import (
    SINK,
    SOURCE,
    Arc,
    by_cut,
    place,
    tensor_arcs,
    vertex_of,
)
from graphmp.rewrite.placement.step_times import StepTimes
from graphmp.rewrite.placement.times_as_reasons import (
    WORTH,
    explained,
    little,
    whole_step,
    with_regions,
)
from graphmp.rewrite.units import TypedGraph
from graphmp.tuning.costs import BYTES, FLOAT32, OPERATIONS, TUNED, Costs
from graphmp.tuning.costs import HALF as HALVED

_INFINITE = float("inf")


class Timed(NamedTuple):
    """A placement by time, and what it is expected to gain.

    Attributes:
        placed: HALF or FLOAT for each unit.
        nodes: the number of nodes by how their times are known.
        saved: nanoseconds of a step below float32, by name: "bytes" for the placement by bytes,
            "half" with all that is free in half precision, "tuned" for this one.
        digest: of the body's nodes in half precision, and of its variables.
        kept: "tuned"; or what was faster as a whole, "float32" or "bytes".
        apart: the number of nodes that timed steps keep in float32.
    """

    placed: List[Paint]
    nodes: Dict[str, int]
    saved: Dict[str, float]
    digest: str
    kept: str
    apart: int = 0


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
    placed = _by_times(graph, groups, loose, compute_dtype, times)
    step = StepTimes(graph, groups, times)
    by_bytes = place(graph, groups, painted, compute_dtype)
    saved = {
        name: -step.cost(each)
        for name, each in ((BYTES, by_bytes), (HALVED, all_half(loose)), (TUNED, placed))
    }
    digest = digest_of(graph, placed, times.body)
    is_timed = digest in costs.placement.split(",")
    kept = costs.faster if costs.faster and (is_timed or not costs.placement) else TUNED
    names = costs.float32_nodes if is_timed else ()
    apart = _free_groups(graph, groups, loose, names)
    if kept == FLOAT32:
        placed = _in_float32(loose, loose, whole_step(costs, compute_dtype))
        return Timed(placed, step.known(), saved, digest, kept)
    if apart:
        settled = [_without(each, groups, apart) for each in (loose, painted)]
        placed = _by_times(graph, groups, settled[0], compute_dtype, times)
        by_bytes = place(graph, groups, settled[1], compute_dtype)
        saved[kept] = -step.cost(by_bytes if kept == BYTES else placed)
    if kept == BYTES:
        placed = by_bytes
    else:
        placed = explained(placed, loose, step, compute_dtype)
        in_float32 = _in_float32(placed, loose, little(compute_dtype))
        if not apart and step.cost(in_float32) - step.cost(placed) < _least_saved(costs):
            placed, kept = in_float32, FLOAT32
    count = len({graph.units[unit].node for group in apart for unit in groups.members[group]})
    placed = with_regions(placed, loose, groups, apart)
    return Timed(placed, step.known(), saved, digest, kept, count)


def _by_times(
    graph: TypedGraph,
    groups: Groups,
    loose: List[Paint],
    compute_dtype: str,
    times: NodeTimes,
) -> List[Paint]:
    """The minimum cut."""
    arcs = [*_arcs(graph, groups, loose, compute_dtype, times)]
    return by_cut(graph, groups, loose, arcs, lambda unit, p: p.reason)


def _free_groups(
    graph: TypedGraph, groups: Groups, loose: List[Paint], names: Sequence[str]
) -> AbstractSet[int]:
    """The groups of some nodes, if they are free; nodes that the graph lacks have none."""
    known = (name for name in names if name in graph.view.nodes)
    units = [unit for name in known for unit in graph.units_of(name)]
    return {groups.of[unit] for unit in units if loose[unit].colour == FREE}


def _without(painted: List[Paint], groups: Groups, apart: AbstractSet[int]) -> List[Paint]:
    """Paint in which some groups are float32."""
    return [
        p._replace(colour=FLOAT) if groups.of[number] in apart else p
        for number, p in enumerate(painted)
    ]


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


def digest_of(graph: TypedGraph, placed: List[Paint], body: str) -> str:
    """A short digest of a body's nodes in half precision, and of its variables' shapes."""
    half = sorted({unit.node for unit, p in zip(graph.units, placed) if p.colour == HALF})
    nodes = [node for node in graph.view.nodes.values() if node.op in VARIABLE_OPS]
    variables = sorted(
        "%s %s" % (node.name, dimensions_of(node.attr["shape"].shape)) for node in nodes
    )
    text = "\n".join([*filter(None, [body]), *half, *variables])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


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


def _least_saved(costs: Costs) -> float:
    """Nanoseconds that a placement has to save to be worth its casts."""
    step = costs.steps.get(OPERATIONS % FLOAT32)
    return 0.0 if step is None else WORTH * step.nanoseconds
