"""Costs made of traces: the runs of each node in steps of float32 and of half precision.

1. A node's time in a type is the median over the quickest quarter of the traced steps, divided by
   its runs. Nodes of one signature share their samples if they take about the same time: where they
   don't, it depends on the values, or on what ran before.
2. TensorFlow fuses ops: a node that runs another op than its own includes those before it that
   don't run. Their times, in whichever type they still run alone, are added to it, in both types.
3. A node that runs in neither type takes no time: constants are folded, ops removed.
"""

from __future__ import annotations

import collections
from typing import (
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from graphmp.tuning.costs import (
    NodeCost,
    OperationSignature,
    OperationTime,
    Time,
    median_time,
    quickest,
)
from graphmp.tuning.signatures import FUSED

_NEAR = 0.25  # of a time: nodes of one signature that differ by more have times of their own
_LITTLE = 0.1  # of a step
_MOST = 2.0  # times as slow as traced, against float32
_TINY = 1000.0  # nanoseconds: smaller differences tell nothing


class Ran(NamedTuple):
    """A node in a traced step: nanoseconds of all its runs, and the op that ran."""

    nanoseconds: float
    op: str


class RanCast(NamedTuple):
    """An inserted cast in a traced step: its name, what it makes, and nanoseconds of one run."""

    name: str
    to: str
    elements: int
    nanoseconds: float


class TracedStep(NamedTuple):
    """A step, run one op at a time.

    Attributes:
        nodes: what ran, by name.
        between: nanoseconds in which none of them ran; 0 if that isn't known.
        runs: of all nodes together; 0 if that isn't known.
        casts: those that were inserted.
    """

    nodes: Mapping[str, Ran]
    between: float = 0.0
    runs: int = 0
    casts: Sequence[RanCast] = ()


class MeasuredNode(NamedTuple):
    """A node of the measured graph.

    Attributes:
        signature: with the shapes of the step.
        inputs: the nodes that it reads.
        readers: the nodes that read it.
        runs: in a step.
    """

    signature: OperationSignature
    inputs: Tuple[str, ...]
    readers: Tuple[str, ...]
    runs: int


class Samples(NamedTuple):
    """The quickest samples of a node's time in each type, in nanoseconds."""

    float32: Tuple[float, ...]
    half: Tuple[float, ...]


class Assembled(NamedTuple):
    """Measurements, and the cost of each node, as in `Costs`."""

    measurements: Tuple[OperationTime, ...]
    nodes: Dict[str, NodeCost]


def assemble(
    nodes: Mapping[str, MeasuredNode], float32: Sequence[TracedStep], half: Sequence[TracedStep]
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
    places: Dict[str, Optional[OperationSignature]] = {}
    samples: Dict[str, Samples] = {}
    for name, node in nodes.items():
        together = [name, *members[name]]
        if name in within or ran.isdisjoint(together):
            places[name] = None
            continue
        places[name] = _with_fused(node.signature, [nodes[each] for each in members[name]])
        samples[name] = Samples(
            *(
                tuple(quickest([_sum(step, together) / max(1, node.runs) for step in steps]))
                for steps in (float32, half)
            )
        )
    measurements: List[OperationTime] = []
    numbers: Dict[str, int] = {}
    for key, names in _by_signature(places).items():
        for group in _alike(names, samples):
            numbers.update(dict.fromkeys(group, len(measurements)))
            measurements.append(OperationTime(key, *_pooled([samples[name] for name in group])))
    return Assembled(
        tuple(measurements),
        {
            name: NodeCost(numbers.get(name, -1), nodes[name].runs, within.get(name, ""))
            for name in nodes
        },
    )


def _by_signature(
    places: Mapping[str, Optional[OperationSignature]],
) -> Dict[OperationSignature, List[str]]:
    found: Dict[OperationSignature, List[str]] = {}
    for name, key in places.items():
        if key is not None:
            found.setdefault(key, []).append(name)
    return found


def _alike(names: Sequence[str], samples: Mapping[str, Samples]) -> Iterator[List[str]]:
    """Nodes of one signature, those together that take about the same time in both types."""
    times = {name: [_median(each) for each in samples[name]] for name in names}
    waiting = sorted(names, key=lambda name: (sum(times[name]), name))
    while waiting:
        first = times[waiting[0]]
        group = [name for name in waiting if all(map(_is_near, times[name], first))]
        found = set(group)
        waiting = [name for name in waiting if name not in found]
        yield group


def _median(samples: Sequence[float]) -> float:
    return median_time(samples).nanoseconds if samples else 0.0


def _is_near(time: float, other: float) -> bool:
    return abs(time - other) <= max(_TINY, _NEAR * min(time, other))


def _pooled(samples: Sequence[Samples]) -> Iterator[Optional[Time]]:
    """The time in each type by the samples of some nodes; None without samples."""
    for each in zip(*samples):
        pool = [nanoseconds for found in each for nanoseconds in found]
        yield median_time(pool) if pool else None


def fused(nodes: Mapping[str, MeasuredNode], steps: Iterable[TracedStep]) -> Dict[str, str]:
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
    """The sum of a step's operations and of the time between them, by the quickest samples of each.

    Args:
        steps: traced steps.
        start: nanoseconds to start an operation, where the time between them isn't known.
    """
    samples: Dict[str, List[float]] = collections.defaultdict(list)
    for step in steps:
        samples[""].append(step.between or start * len(step.nodes))
        for name, ran in step.nodes.items():
            samples[name].append(ran.nanoseconds)
    times = [median_time(quickest(each)) for each in samples.values()]
    sums = [sum(time[place] for time in times) for place in range(3)]
    return Time(sums[0], sums[1], sums[2], len(steps))


def start_of_one(steps: Sequence[TracedStep]) -> float:
    """Nanoseconds to start one operation more: the share of each in the time between them."""
    shares = [step.between / step.runs for step in steps if step.runs]
    return median_time(quickest(shares)).nanoseconds if shares else 0.0


def half_scale(whole: Tuple[float, float], traced: Tuple[float, float], in_half: float) -> float:
    """By how much operations in half precision are slowed down more than others in whole steps.

    Operations overlap, wait for each other, and share the cache: a factor for each type says by how
    much. Float32's is that of the float32 step; the rest of the other step's time is due to half
    precision's. From 1/2 to 2; 1 if little of the step is in half precision.

    Args:
        whole: nanoseconds of whole steps in float32, and with all in half precision that may be.
        traced: nanoseconds of their operations.
        in_half: those of the second step's operations in half precision, with its casts.
    """
    if min(*whole, *traced) <= 0 or in_half < _LITTLE * traced[1]:
        return 1.0
    float32 = whole[0] / traced[0]
    half = (whole[1] - float32 * (traced[1] - in_half)) / in_half
    return min(_MOST, max(1 / _MOST, half / float32))


def _includes(ran: str, op: str) -> bool:
    """Whether the op that ran is a fused one, in place of another."""
    return ran != op and "Fused" in ran.replace("FusedBatchNorm", "")


def _with_fused(
    signature: OperationSignature, members: Sequence[MeasuredNode]
) -> OperationSignature:
    if not members:
        return signature
    ops = ",".join(sorted(node.signature.op for node in members))
    return signature._replace(attributes=tuple(sorted([*signature.attributes, (FUSED, ops)])))


def _sum(step: TracedStep, names: Sequence[str]) -> float:
    return sum(step.nodes[name].nanoseconds for name in names if name in step.nodes)
