"""Costs made of traces: the runs of each node in steps of float32 and of half precision.

1. A node's time in a type is the median over the quickest quarter of the traced steps, divided by
   its runs; operations of one signature share their samples.
2. TensorFlow fuses ops: a node that runs another op than its own includes those before it that
   don't run. Their times, in whichever type they still run alone, are added to it, in both types.
3. A node that runs in neither type takes no time: constants are folded, ops removed.
"""

from __future__ import annotations

import collections
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from graphmp.tuning.costs import (
    CastTime,
    Measurement,
    NodeCost,
    Signature,
    Time,
    median_time,
    quickest,
)
from graphmp.tuning.prediction import interpolated
from graphmp.tuning.signatures import FUSED


class Ran(NamedTuple):
    """A node in a traced step: nanoseconds of all its runs, and the op that ran."""

    nanoseconds: float
    op: str


class TracedStep(NamedTuple):
    """A step, run one op at a time.

    Attributes:
        nodes: what ran, by name.
    """

    nodes: Mapping[str, Ran]


class Node(NamedTuple):
    """A node of the measured graph.

    Attributes:
        signature: with the shapes of the step.
        inputs: the nodes that it reads.
        readers: the nodes that read it.
        runs: in a step.
    """

    signature: Signature
    inputs: Tuple[str, ...]
    readers: Tuple[str, ...]
    runs: int


class Assembled(NamedTuple):
    """Measurements, and the cost of each node, as in `Costs`."""

    measurements: Tuple[Measurement, ...]
    nodes: Dict[str, NodeCost]


def assemble(
    nodes: Mapping[str, Node], float32: Sequence[TracedStep], half: Sequence[TracedStep]
) -> Assembled:
    """Measurements of the nodes of a graph.

    Args:
        nodes: those that run in a step, by name.
        float32: traced steps of the graph.
        half: traced steps with everything that may be in half precision in it; may be empty.
    """
    within = fused(nodes, [*float32[:1], *half[:1]])
    members: Dict[str, List[str]] = collections.defaultdict(list)
    for name, anchor in within.items():
        members[anchor].append(name)
    ran = {name for step in (*float32, *half) for name in step.nodes}
    samples: Dict[Signature, Tuple[List[float], List[float]]] = {}
    places: Dict[str, Optional[Signature]] = {}
    for name, node in nodes.items():
        together = [name, *members[name]]
        if name in within or ran.isdisjoint(together):
            places[name] = None
            continue
        key = places[name] = _with_fused(node.signature, [nodes[each] for each in members[name]])
        for found, steps in zip(samples.setdefault(key, ([], [])), (float32, half)):
            found += [_sum(step, together) / max(1, node.runs) for step in steps]
    numbers = {key: number for number, key in enumerate(samples)}
    return Assembled(
        tuple(Measurement(key, *map(_time, times)) for key, times in samples.items()),
        {
            name: NodeCost(
                -1 if key is None else numbers[key], nodes[name].runs, within.get(name, "")
            )
            for name, key in places.items()
        },
    )


def fused(nodes: Mapping[str, Node], steps: Iterable[TracedStep]) -> Dict[str, str]:
    """Nodes whose kernel is part of another's, with that one's name.

    A node belongs to the node that reads it if it doesn't run in some step in which that one runs
    another op than its own, and nothing else that runs reads it.
    """
    found: Dict[str, str] = {}
    for step in steps:
        for name, ran in step.nodes.items():
            node = nodes.get(name)
            if node is None or name in found or not _includes(ran.op, node.signature.op):
                continue
            waiting: List[str] = [name]
            inside: Set[str] = {name}
            while waiting:
                for before in nodes[waiting.pop()].inputs:
                    each = nodes.get(before)
                    if (
                        each is not None
                        and each.inputs
                        and before not in step.nodes
                        and before not in inside
                        and before not in found
                        and inside.issuperset(r for r in each.readers if r in nodes)
                    ):
                        inside.add(before)
                        waiting.append(before)
                        found[before] = name
    return found


def added_up(steps: Sequence[TracedStep], start: float) -> Time:
    """The sum of the operations of a step, each by the quickest quarter of its samples.

    Args:
        steps: traced steps.
        start: nanoseconds to start an operation.
    """
    samples: Dict[str, List[float]] = collections.defaultdict(list)
    for step in steps:
        for name, ran in step.nodes.items():
            samples[name].append(start + ran.nanoseconds)
    times = [median_time(quickest(each)) for each in samples.values()]
    sums = [sum(time[place] for time in times) for place in range(3)]
    return Time(sums[0], sums[1], sums[2], len(steps))


def cast_times(samples: Iterable[Tuple[str, int, Sequence[float]]]) -> Tuple[CastTime, ...]:
    """Casts from samples of nanoseconds, by dtype and size; equal ones share their samples."""
    pooled: Dict[Tuple[str, int], List[float]] = collections.defaultdict(list)
    for to, elements, times in samples:
        pooled[to, elements] += times
    return tuple(
        CastTime(to, elements, median_time(quickest(times)))
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


def _includes(ran: str, op: str) -> bool:
    """Whether the op that ran is a fused one, in place of another."""
    return ran != op and "Fused" in ran.replace("FusedBatchNorm", "")


def _with_fused(signature: Signature, members: Sequence[Node]) -> Signature:
    if not members:
        return signature
    ops = ",".join(sorted(node.signature.op for node in members))
    return signature._replace(attributes=tuple(sorted([*signature.attributes, (FUSED, ops)])))


def _sum(step: TracedStep, names: Sequence[str]) -> float:
    return sum(step.nodes[name].nanoseconds for name in names if name in step.nodes)


def _time(samples: Sequence[float]) -> Optional[Time]:
    return median_time(quickest(samples)) if samples else None
