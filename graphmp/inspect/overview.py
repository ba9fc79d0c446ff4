"""The effects of a conversion on a graph, with reasons, as data; nothing is printed or changed."""

from __future__ import annotations

import collections
from typing import AbstractSet, Callable, Counter, Dict, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError, warning
from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.state.variables import variables
from graphmp.graph.structure.gradient_code import gradient_code, gradient_nodes
from graphmp.graph.structure.view import GraphView
from graphmp.inspect import tensor_cores
from graphmp.inspect.islands import IslandRow, alike, islands, pattern
from graphmp.inspect.rules import UNPAINTED
from graphmp.inspect.tensor_cores import Dimension
from graphmp.inspect.traffic import Traffic, traffic, unscaled
from graphmp.inspect.training_step import find_training
from graphmp.naming import in_body
from graphmp.policy.policy import CATEGORIES, UNLISTED, Policy
from graphmp.policy.reason import CLEAR, INFER, RANGE_GUARD, Reason
from graphmp.rewrite.painting.paint import HALF
from graphmp.rewrite.pipeline import Decisions, decide
from graphmp.rewrite.range_guard import ranges
from graphmp.rewrite.recognise import Recognised, recognise
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.functions import steps_inside
from graphmp.tf_hooks.op_defs import OpDefs

_OF_THE_PLACE = (CLEAR, INFER)  # kinds of reason that need their text


class GraphFacts(NamedTuple):
    """The graph itself; `gradient_scopes` tells for each whether it reaches an update."""

    nodes: int
    functions: int
    tensorflow_version: str
    variables: int
    gradient_scopes: Dict[str, bool]


class OpRow(NamedTuple):
    """Nodes of one op with a float32 type attribute: how many become half, and why others don't.

    Only the main reason is given.
    """

    op: str
    listed: str
    half: int
    float32: int
    reason: str


class KeptRow(NamedTuple):
    """Type attributes that stay float32 for one kind of reason, and an example."""

    kind: str
    units: int
    node: str
    reason: Reason


class ConstantRow(NamedTuple):
    """Similar constants that half precision can't hold.

    One, their number, and nodes kept in float32.
    """

    node: str
    nodes: int
    value: float
    kept: List[str]


class ShapeRow(NamedTuple):
    """Matmuls and convolutions with dimensions that are no multiples of 8, largest first."""

    node: str
    nodes: int
    op: str
    dimensions: List[Dimension]


class Inspection(NamedTuple):
    """The whole result. Tables are empty if no dtype would change (`leave`).

    `traffic` is before and after, or why it is unknown.
    """

    facts: GraphFacts
    notes: List[Dict[str, str]]
    leave: bool
    ops: List[OpRow]
    kept: List[KeptRow]
    constants: List[ConstantRow]
    islands: List[IslandRow]
    shapes: List[ShapeRow]
    traffic: List[Traffic]
    traffic_error: str


def inspect(
    meta_graph: tf.MetaGraphDef,
    config: Config,
    policy: Policy,
    progress: Callable[[str], None] = lambda stage: None,
) -> Inspection:
    """Inspect a graph like a conversion.

    Raises:
        GraphmpError: GMP002 for a --fetch that names no node.
    """
    view = GraphView(meta_graph.graph_def)
    gradients = gradient_nodes(view)
    special = recognised(meta_graph, config, policy)
    facts = _facts(meta_graph, view, config)
    if special.leave:
        return Inspection(facts, special.warnings, True, [], [], [], [], [], [], "")
    progress("painting")
    decided = decide(meta_graph, config, policy)
    progress("measuring")
    moved, error = _traffic(meta_graph, config, policy)
    return Inspection(
        facts,
        special.warnings,
        False,
        _ops(decided, policy),
        _kept(decided),
        _constants(decided, config.compute_dtype),
        islands(meta_graph, decided, config, policy),
        _shapes(decided, gradients),
        moved,
        error,
    )


def recognised(meta_graph: tf.MetaGraphDef, config: Config, policy: Policy) -> Recognised:
    """The special cases of a graph, including converted and float32 ones."""
    view = GraphView(meta_graph.graph_def)
    try:
        found = recognise(meta_graph, view, config, policy, gradient_nodes(view))
    except GraphmpError as error:
        return Recognised([warning(error.code, "", error.message)], True)
    return (
        found
        if config.compute_dtype != "float32"
        else Recognised([*found.warnings, warning("", "", UNPAINTED)], True)
    )


def _facts(meta_graph: tf.MetaGraphDef, view: GraphView, config: Config) -> GraphFacts:
    names = view.nodes.keys()
    graph = TrainingGraph(meta_graph, config, OpDefs(meta_graph))
    training = {each.scope for loss in find_losses(graph, config) for each in loss.scopes}
    inside = {
        in_body(step.body.name, each.scope)
        for step in steps_inside(graph, config)
        for loss in step.losses
        for each in loss.scopes
    }
    return GraphFacts(
        len(names),
        len(meta_graph.graph_def.library.function),
        meta_graph.meta_info_def.tensorflow_version,
        len(variables(meta_graph.graph_def)),
        {
            **{scope: scope in training for scope in sorted(gradient_code(view))},
            **dict.fromkeys(sorted(inside), True),
        },
    )


def _traffic(
    meta_graph: tf.MetaGraphDef, config: Config, policy: Policy
) -> Tuple[List[Traffic], str]:
    try:
        converted = unscaled(meta_graph, config, policy)
    except GraphmpError as error:
        return [], str(error)
    shapes = with_inferred_shapes(meta_graph.graph_def)
    updates = find_training(meta_graph, config).updates
    return [traffic(meta_graph, shapes, updates), traffic(converted, shapes, updates)], ""


def _ops(decided: Dict[str, Decisions], policy: Policy) -> List[OpRow]:
    """By list, the most frequent op first. A node is half if any of its type attributes is."""
    half: Counter[str] = collections.Counter()
    reasons: Dict[str, Counter[str]] = collections.defaultdict(collections.Counter)
    for decisions in decided.values():
        in_half = decisions.half_nodes()
        for name, node in decisions.graph.view.nodes.items():
            units = decisions.graph.units_of(name)
            if name in in_half:
                half[node.op] += 1
            elif units:
                reasons[node.op][_label(decisions.placed[units[0]].reason)] += 1
    order = (*CATEGORIES, UNLISTED)
    rows = [
        OpRow(op, policy.category(op), half[op], sum(reasons[op].values()), _commonest(reasons[op]))
        for op in set(half) | set(reasons)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (order.index(row.listed), -row.half - row.float32, row.op))


def _kept(decided: Dict[str, Decisions]) -> List[KeptRow]:
    found: Dict[str, List[Tuple[str, Reason]]] = collections.defaultdict(list)
    for body, decisions in decided.items():
        for unit, p in decisions.units():
            if p.colour != HALF:
                found[_label(p.reason)].append((in_body(body, unit.node), p.reason))
    return sorted(
        (KeptRow(label, len(nodes), *nodes[0]) for label, nodes in found.items()),
        key=lambda row: (-row.units, row.kind),
    )


def _constants(decided: Dict[str, Decisions], compute_dtype: str) -> List[ConstantRow]:
    rows = []
    for body, decisions in decided.items():
        graph = decisions.graph
        kept: Dict[str, List[str]] = collections.defaultdict(list)
        for unit, p in decisions.units():
            if p.reason.kind == RANGE_GUARD:
                kept[p.reason.node].append(in_body(body, unit.node))
        for name, node in graph.view.nodes.items():
            fit = (
                ranges.misfit(node, compute_dtype)
                if node.op == "Const" and graph.units_of(name)
                else None
            )
            if fit is not None:
                rows.append(
                    ConstantRow(
                        in_body(body, name),
                        1,
                        fit.value,
                        [n for n in kept[name] if n != in_body(body, name)],
                    )
                )
    groups = alike(rows, lambda row: (pattern(row.node), row.value))
    merged = [r[0]._replace(nodes=len(r), kept=[n for row in r for n in row.kept]) for r in groups]
    return sorted(merged, key=lambda row: (-len(row.kept), row.node))


def _shapes(decided: Dict[str, Decisions], gradients: AbstractSet[str]) -> List[ShapeRow]:
    """Half units only of the forward pass: the gradients of a matmul have its dimensions too."""
    rows = []
    for body, decisions in decided.items():
        view = decisions.graph.view
        for unit, p in decisions.units():
            found = (
                tensor_cores.misfit(view, unit.node)
                if p.colour == HALF and unit.node not in gradients
                else None
            )
            if found is not None:
                rows.append(
                    (
                        found.work,
                        ShapeRow(
                            in_body(body, unit.node),
                            1,
                            view.nodes[unit.node].op,
                            found.dimensions,
                        ),
                    )
                )
    rows.sort(key=lambda row: (-row[0], row[1].node))
    return [
        r[0]._replace(nodes=len(r))
        for r in alike(
            (row for _, row in rows), lambda row: (pattern(row.node), row.op, row.dimensions)
        )
    ]


def _label(reason: Reason) -> str:
    """The label under which a reason is counted."""
    return reason.text if reason.kind in _OF_THE_PLACE else reason.kind


def _commonest(reasons: Counter[str]) -> str:
    return min(reasons, key=lambda reason: (-reasons[reason], reason), default="")
