"""The cost of a conversion's dtypes and casts in bytes, and the minimum cut behind it, as data."""

from __future__ import annotations

import collections
from typing import Any, Callable, Dict, List, NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.structure.view import GraphView
from graphmp.inspect.alike import alike, pattern
from graphmp.inspect.overview import recognised
from graphmp.inspect.traffic import Moves, Traffic, moves, summed, unscaled
from graphmp.inspect.training_step import find_training
from graphmp.naming import in_body
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.policy import Policy
from graphmp.policy.reason import UNTYPED, Reason
from graphmp.rewrite.painting.paint import FREE, HALF
from graphmp.rewrite.pipeline import Decisions, decide
from graphmp.rewrite.placement.costs import price


class OpCost(NamedTuple):
    """The bytes that nodes of one op move in a step, before and after; in float32 after."""

    op: str
    nodes: int
    before: int
    after: int
    float32: int


class CastCost(NamedTuple):
    """Similar casts: the largest, their number, the bytes they move in a step, and their cause."""

    node: str
    nodes: int
    bytes: int
    to: str
    reader: str
    reason: str


class WideCost(NamedTuple):
    """Similar nodes in float32.

    The one that moves most, their number, their bytes, and the reason.
    """

    node: str
    nodes: int
    op: str
    bytes: int
    reason: Reason


class Cut(NamedTuple):
    """The minimum cut of all graph bodies.

    Attributes:
        free: the groups of nodes that painting left to it; `half` and `float32` are the result.
        bytes: the cost of the choice in a step, in addition to the same graph in half without
            casts.
        all_half: the cost with all of them in half.
        all_float32: the cost with all in float32.
    """

    free: int
    half: int
    float32: int
    bytes: float
    all_half: float
    all_float32: float


class CostReport(NamedTuple):
    """The whole result.

    With an `error`, why a graph can't be converted, only `notes` and `before`.
    """

    notes: List[Dict[str, str]]
    trains: bool
    before: Traffic
    after: Traffic
    ops: List[OpCost]
    casts: List[CastCost]
    wide: List[WideCost]
    cut: Cut
    error: str


def inspect_cost(
    meta_graph: tf.MetaGraphDef,
    config: Config,
    policy: Policy,
    progress: Callable[[str], None] = lambda stage: None,
) -> CostReport:
    """The costs and savings of a conversion.

    Raises:
        GraphmpError: GMP002 for a --fetch that names no node.
    """
    special = recognised(meta_graph, config, policy)
    training = find_training(meta_graph, config)
    shapes = with_inferred_shapes(meta_graph.graph_def)
    before = moves(meta_graph, shapes, training.updates)
    nothing = CostReport(
        special.warnings,
        training.trains,
        summed(before),
        summed(before),
        [],
        [],
        [],
        Cut(0, 0, 0, 0, 0, 0),
        "",
    )
    if special.leave:
        return nothing
    progress("painting")
    decided = decide(meta_graph, config, policy)
    try:
        converted = unscaled(meta_graph, config, policy)
    except GraphmpError as error:
        return nothing._replace(error=str(error))
    progress("measuring")
    after = moves(converted, shapes, training.updates)
    reasons = _reasons(decided)
    return nothing._replace(
        after=summed(after),
        ops=_ops(before, after),
        casts=_casts(converted, after, reasons),
        wide=_wide(after, reasons),
        cut=_cut(decided),
    )


def _reasons(decided: Dict[str, Decisions]) -> Dict[str, Reason]:
    """The reason of each float32 node."""
    return {
        in_body(body, unit.node): p.reason
        for body, decisions in decided.items()
        for unit, p in decisions.units()
        if p.colour != HALF
    }


def _ops(before: Dict[str, Moves], after: Dict[str, Moves]) -> List[OpCost]:
    found: Dict[str, List[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
    for moved in before.values():
        found[moved.op][1] += moved.bytes
    for moved in after.values():
        row = found[moved.op]
        row[0] += 1
        row[2] += moved.bytes
        row[3] += moved.wide
    return sorted(
        (OpCost(op, *row) for op, row in found.items()),
        key=lambda row: (-row.after, -row.before, row.op),
    )


def _casts(
    converted: tf.MetaGraphDef, after: Dict[str, Moves], reasons: Dict[str, Reason]
) -> List[CastCost]:
    """The casts of the step, those that move most first.

    The reason of a cast up is that of its consumer, else that of its producer.
    """
    view = GraphView(converted.graph_def)
    rows = []
    for name, moved in after.items():
        if not moved.is_cast:
            continue
        node = view.nodes[name]
        up = node.attr["DstT"].type == FLOAT32
        readers = [consumer.node for consumer in view.consumers(name)]
        asking = readers if up else [port.node for port in view.inputs(name)]
        reason = next((reasons[each].text for each in asking if each in reasons), "")
        dtype = tf.as_dtype(node.attr["DstT"].type).name
        rows.append(CastCost(name, 1, moved.bytes, dtype, readers[0] if readers else "", reason))
    return [
        row[0]._replace(nodes=len(row), bytes=sum(r.bytes for r in row)) for row in _largest(rows)
    ]


def _wide(after: Dict[str, Moves], reasons: Dict[str, Reason]) -> List[WideCost]:
    rows = [
        WideCost(n, 1, m.op, m.wide, reasons.get(n, Reason(UNTYPED)))
        for n, m in after.items()
        if m.wide and not m.is_cast
    ]
    return [
        row[0]._replace(nodes=len(row), bytes=sum(r.bytes for r in row)) for row in _largest(rows)
    ]


def _largest(rows: List[Any]) -> List[List[Any]]:
    """Rows grouped by names without numbers, those that move most first."""
    rows.sort(key=lambda row: (-row.bytes, row.node))
    groups = alike(rows, lambda row: pattern(row.node))
    return sorted(groups, key=lambda group: (-sum(row.bytes for row in group), group[0].node))


def _cut(decided: Dict[str, Decisions]) -> Cut:
    """The sum of the cuts of all bodies."""
    total = Cut(0, 0, 0, 0.0, 0.0, 0.0)
    for graph, groups, wanted, placed, _ in decided.values():
        free = {number for number, p in enumerate(wanted) if p.colour == FREE}
        fixed = {number for number, p in enumerate(wanted) if p.colour == HALF}
        chosen = {number for number, p in enumerate(placed) if p.colour == HALF}
        counts = [
            len({groups.of[number] for number in units})
            for units in (free, free & chosen, free - chosen)
        ]
        prices = [price(graph, units) for units in (chosen, fixed | free, fixed)]
        sums = [a + b for a, b in zip(total, [*counts, *prices])]
        total = Cut(int(sums[0]), int(sums[1]), int(sums[2]), *sums[3:])
    return total
