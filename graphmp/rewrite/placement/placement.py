"""Placing the casts: a minimum cut over the units that painting left free.

Source = half, sink = float32; a free group is one vertex. The cost of a cut is bytes moved
(`costs.py`):

- additional bytes of a float32 unit, for each tensor that it reads or writes: source -> u;
- casting a tensor up (half producer, float32 consumer): producer -> x, x -> each consumer;
- casting it down costs the same: each consumer -> x, x -> producer. A cast serves all its
  consumers, hence x;
- tensors sent between float32 units on different devices; if both are free, half of that for each;
- tensors sent by an all-reduce of gradients: source -> u;
- what a kernel takes longer in half: u -> sink;
- comparisons and rounding never read a cast made for their sake: consumer -> producer, infinite;
  neither do all-reduces and the nodes that pass gradients to them: gradients that are float32 for a
  reason stay so.

Ties become half. What half precision would only move between casts is float32
(`only_moved.py`): the rest is cut again.

The cut is scipy's maximum flow, for several connected parts of the free units at a time. It uses
32-bit capacities and wraps silently above them; costs are therefore scaled to fit, and the value of
the cut is checked against the flow.
"""

from __future__ import annotations

import collections
import functools
import itertools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Set, Tuple

import numpy as np
import scipy.sparse as sparse
from scipy.sparse import csgraph

from graphmp.graph.structure.view import Port
from graphmp.policy.reason import CLEAR, INFER, Reason
from graphmp.policy.traits import DISCONTINUOUS, MOVES_NOTHING
from graphmp.rewrite.painting.groups import Groups
from graphmp.rewrite.painting.paint import FLOAT, FREE, HALF, Paint
from graphmp.rewrite.placement.costs import SLOW_KERNEL, TensorCost, costs, sends, slowness
from graphmp.rewrite.placement.only_moved import only_moved
from graphmp.rewrite.range_guard.ranges import is_exact
from graphmp.rewrite.units import TypedGraph

SOURCE, SINK = 0, 1
_LIMIT = 2**30  # sum of all finite capacities of one flow; twice that fits 32 bits
_MOST_ARCS = 500  # of parts that share a flow: scipy before 1.9 examines all of them for each path

Arc = Tuple[int, int, float]
_INFINITE = float("inf")
_HALF = {
    INFER: Reason(INFER, "between half-precision ops"),
    CLEAR: Reason(CLEAR, "follows its neighbours"),
}
_ONLY_MOVED = Reason(CLEAR, "float32 ops give and read what it moves")


def place(
    graph: TypedGraph, groups: Groups, painted: List[Paint], compute_dtype: str
) -> List[Paint]:
    """Decide on what painting left free by bytes: HALF or FLOAT for every unit."""
    arcs = itertools.chain(
        tensor_arcs(graph, groups, painted, compute_dtype, functools.partial(costs, graph)),
        _slow_arcs(graph, groups, painted),
    )
    return by_cut(graph, groups, painted, arcs, functools.partial(_by_cost, graph))


def _slow_arcs(graph: TypedGraph, groups: Groups, painted: List[Paint]) -> Iterator[Arc]:
    """The arcs of nodes whose kernels are slow in half precision."""
    for name in graph.view.nodes:
        slow = slowness(graph, name)
        vertex = vertex_of(groups, painted, graph.units_of(name)[0]) if slow else SINK
        if vertex > SINK:
            yield vertex, SINK, slow


def _by_cost(graph: TypedGraph, unit: int, p: Paint) -> Reason:
    """The reason of a free unit that the cut leaves in float32."""
    slow = slowness(graph, graph.units[unit].node)
    text = SLOW_KERNEL if slow else "float32 needs fewer casts or bytes here"
    return Reason(p.reason.kind, text)


def by_cut(
    graph: TypedGraph,
    groups: Groups,
    painted: List[Paint],
    arcs: Iterable[Arc],
    why_float32: Callable[[int, Paint], Reason],
) -> List[Paint]:
    """HALF or FLOAT for every unit by the minimum cut over some arcs.

    Args:
        graph: the graph.
        groups: its groups; vertex 2 + n is group n.
        painted: the result of painting; FREE units are decided.
        arcs: the costs.
        why_float32: the reason of a unit that was free and becomes float32.
    """
    all_arcs = list(arcs)
    kept: Dict[int, Reason] = {}
    while True:
        decided = _cut_once(
            groups, painted, all_arcs, lambda n, p: kept.get(n) or why_float32(n, p)
        )
        moved = _moved_in_half(graph, groups, painted, decided)
        if not moved:
            break
        all_arcs += [(2 + groups.of[number], SINK, _INFINITE) for number in moved]
        kept.update(dict.fromkeys(moved, _ONLY_MOVED))
    for number, p in enumerate(painted):
        if p.colour == FREE and graph.node(number).op == "Const":
            decided[number] = _constant(graph, number, decided)
    return decided


def _cut_once(
    groups: Groups,
    painted: List[Paint],
    arcs: Iterable[Arc],
    why_float32: Callable[[int, Paint], Reason],
) -> List[Paint]:
    merged = list(_merged(arcs))
    half = _half_side(merged)
    cut = {vertex for a, b, _ in merged for vertex in (a, b)}
    decided = []
    for number, p in enumerate(painted):
        if p.colour != FREE:
            decided.append(p)
        elif 2 + groups.of[number] in half or 2 + groups.of[number] not in cut:
            decided.append(Paint(HALF, _HALF.get(p.reason.kind, p.reason), p.because))
        else:
            decided.append(Paint(FLOAT, why_float32(number, p), p.because))
    return decided


def _moved_in_half(
    graph: TypedGraph, groups: Groups, painted: List[Paint], decided: List[Paint]
) -> List[int]:
    """The units to keep in float32: groups of which half precision only moves every member."""
    moved = only_moved(graph, (n for n, p in enumerate(decided) if p.colour == HALF))
    return [
        number
        for number in sorted(moved)
        if painted[number].colour == FREE and moved.issuperset(groups.members[groups.of[number]])
    ]


def _constant(graph: TypedGraph, number: int, decided: List[Paint]) -> Paint:
    """A constant has its consumers' dtype; if they differ there is a second one."""
    readers = [
        graph.reader(consumer) for consumer in graph.view.consumers(graph.units[number].node)
    ]
    if readers and all(reader >= 0 and decided[reader].colour == HALF for reader in readers):
        return Paint(HALF, Reason(CLEAR, "a constant that half-precision ops read"))
    return Paint(FLOAT, Reason(CLEAR, "a constant that float32 ops read"))


def vertex_of(groups: Groups, painted: List[Paint], unit: int) -> int:
    """The vertex of a unit: a terminal if painting decided on it or it has none."""
    if unit < 0 or painted[unit].colour == FLOAT:
        return SINK
    return SOURCE if painted[unit].colour == HALF else 2 + groups.of[unit]


def tensor_arcs(
    graph: TypedGraph,
    groups: Groups,
    painted: List[Paint],
    compute_dtype: str,
    cost_of: Callable[[Port], TensorCost],
) -> Iterator[Arc]:
    """The arcs of tensors. A group is vertex 2 + its number; casts have the numbers after that."""
    fresh = 2 + len(groups.members)
    vertex = functools.partial(vertex_of, groups, painted)
    for port, producer, consumers in graph.float32_tensors():
        node = graph.view.nodes[port.node]
        cost = cost_of(port)
        a = vertex(producer)
        if a > SINK:
            yield SOURCE, a, cost.written + cost.sent * sends(graph, port.node)
        readers: Set[int] = set()
        idle: Set[int] = set()
        for consumer in consumers:
            b = vertex(graph.reader(consumer))
            op = graph.view.nodes[consumer.node].op
            if b > SINK and op not in MOVES_NOTHING and consumer.node not in graph.idle:
                yield SOURCE, b, cost.read
            if b > SINK and consumer.node in graph.joined:
                yield b, a, _INFINITE
            if b != a:
                (idle if consumer.node in graph.idle else readers).add(b)
                if (
                    op in DISCONTINUOUS
                    and b > SINK
                    and not (node.op == "Const" and is_exact(node, compute_dtype))
                ):
                    yield b, a if node.op != "Const" else SINK, _INFINITE
        for ends, up, down in (
            (readers, cost.up, cost.down),
            (idle - readers, cost.idle, cost.idle),
        ):
            if ends and node.op != "Const":
                yield from _cast(a, ends, SINK, up, fresh)
                yield from (
                    (y, x, capacity) for x, y, capacity in _cast(a, ends, SOURCE, down, fresh + 1)
                )
                fresh += 2
        for there in graph.places.elsewhere(port.node, consumers).values():
            yield from _sent(
                a, {vertex(graph.reader(consumer)) for consumer in there}, cost.sent, fresh
            )
            fresh += 1


def _cast(producer: int, readers: Set[int], other: int, cost: float, shared: int) -> Iterator[Arc]:
    """Arcs that cost if any consumer is on the side of `other` and the producer isn't."""
    if producer == other:
        return
    if other in readers:  # a consumer fixed on that side needs the cast
        yield producer, other, cost
        return
    ends = sorted(reader for reader in readers if reader > SINK)
    if len(ends) == 1:
        yield producer, ends[0], cost
    elif ends:
        yield producer, shared, cost
        yield from ((shared, end, _INFINITE) for end in ends)


def _sent(producer: int, readers: Set[int], cost: float, shared: int) -> Iterator[Arc]:
    """Arcs that cost if the producer and any consumer are float32.

    A cut can't charge a pair of free ends for being equal: each bears half.
    """
    free = producer > SINK
    if producer == SOURCE or readers == {SOURCE}:
        return
    if free:
        yield SOURCE, producer, cost if SINK in readers else cost / 2
    if SINK not in readers:
        yield from _cast(SOURCE, readers, SINK, cost / 2 if free else cost, shared)


def _merged(arcs: Iterable[Arc]) -> Iterator[Arc]:
    """Parallel arcs added up, without those between the terminals."""
    total: Dict[Tuple[int, int], float] = collections.defaultdict(float)
    for a, b, capacity in arcs:
        if a != b and {a, b} != {SOURCE, SINK} and b != SOURCE and a != SINK:
            total[a, b] += capacity
    return ((a, b, capacity) for (a, b), capacity in total.items())


def _half_side(arcs: List[Arc]) -> Set[int]:
    """The vertices on the half side of the minimum cut, all parts together."""
    size = max((max(a, b) for a, b, _ in arcs), default=SINK) + 1
    inner = np.array([(a, b) for a, b, _ in arcs if a > SINK and b > SINK], int).reshape(-1, 2)
    matrix = sparse.coo_matrix(
        (np.ones(len(inner), np.int8), (inner[:, 0], inner[:, 1])), shape=(size, size)
    )
    labels = csgraph.connected_components(matrix, directed=False)[1]
    parts: Dict[int, List[Arc]] = collections.defaultdict(list)
    for arc in arcs:
        parts[labels[arc[0] if arc[0] > SINK else arc[1]]].append(arc)
    half: Set[int] = set()
    for batch in _batches(parts.values()):
        half |= _cut(batch)
    return half


def _batches(parts: Iterable[List[Arc]]) -> Iterator[List[Arc]]:
    """Parts that share a flow: they only have the terminals in common, and the setup dominates."""
    batch: List[Arc] = []
    total = 0.0
    for part in parts:
        cost = sum(capacity for _, _, capacity in part if capacity != _INFINITE)
        if batch and (len(batch) + len(part) > _MOST_ARCS or total + cost > _LIMIT):
            yield batch
            batch, total = [], 0.0
        batch = batch + part
        total += cost
    if batch:
        yield batch


def _cut(arcs: List[Arc]) -> Set[int]:
    """The source side of the minimum cut of some parts, as large as possible: ties become half."""
    vertices = sorted({v for a, b, _ in arcs for v in (a, b)} | {SOURCE, SINK})
    local = {v: i for i, v in enumerate(vertices)}
    capacities = _scaled([capacity for _, _, capacity in arcs])
    rows, columns = [local[a] for a, _, _ in arcs], [local[b] for _, b, _ in arcs]
    capacity = sparse.csr_matrix(
        (capacities, (rows, columns)), shape=(len(vertices), len(vertices))
    )
    result = csgraph.maximum_flow(capacity, SOURCE, SINK)
    flow = (
        result.flow if hasattr(result, "flow") else result.residual
    )  # scipy before 1.9 calls the flow so
    residual = (capacity - flow).tocsr()
    residual.eliminate_zeros()
    float32 = set(
        csgraph.breadth_first_order(residual.T.tocsr(), SINK, return_predecessors=False).tolist()
    )
    _check(rows, columns, capacities, float32, int(result.flow_value))
    return {v for v in vertices if v > SINK and local[v] not in float32}


def _scaled(capacities: List[float]) -> Any:
    """Capacities as 32-bit integers with a finite sum; infinity exceeds that sum."""
    values = np.array(capacities, np.float64)
    finite = np.isfinite(values)
    total = values[finite].sum()
    scale = min(1.0, _LIMIT / total) if total else 1.0
    scaled = np.where(
        finite, np.maximum(1, np.floor(np.where(finite, values, 0) * scale)), 0
    ).astype(np.int64)
    scaled[~finite] = scaled.sum() + 1
    return scaled.astype(np.int32)


def _check(
    rows: List[int], columns: List[int], capacities: Any, float32: Set[int], flow: int
) -> None:
    """Raise ArithmeticError if cut and flow differ in value: capacities wrapped."""
    cut = sum(
        int(c) for a, b, c in zip(rows, columns, capacities) if a not in float32 and b in float32
    )
    if cut != flow:
        raise ArithmeticError("minimum cut %d, maximum flow %d" % (cut, flow))
