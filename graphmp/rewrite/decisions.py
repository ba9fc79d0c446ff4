"""Decisions: the dtype of each unit of a graph body, and why. Nothing is changed."""

from __future__ import annotations

from types import MappingProxyType
from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.state.carried import Carried
from graphmp.graph.state.late_reads import late_reads
from graphmp.graph.state.state import State
from graphmp.graph.structure.gradient_code import gradient_code, idle_nodes
from graphmp.graph.structure.view import GraphView
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import RESOURCE
from graphmp.policy.op_sets import ARGUMENT, MERGES, SELECTS, SWITCHES
from graphmp.policy.reason import LOSS, MEASURED, Reason
from graphmp.rewrite.calibration import overflowed
from graphmp.rewrite.painting import pins
from graphmp.rewrite.painting.groups import Groups
from graphmp.rewrite.painting.paint import FLOAT, FREE, HALF, Paint, ahead_of_allow, paint
from graphmp.rewrite.placement.node_times import NodeTimes
from graphmp.rewrite.placement.placement import place
from graphmp.rewrite.placement.placement_by_time import Timed, all_half, loosened, place_by_time
from graphmp.rewrite.placement.times_as_reasons import little
from graphmp.rewrite.problem import Problem
from graphmp.rewrite.range_guard import ranges
from graphmp.rewrite.range_guard.precision import precise
from graphmp.rewrite.units import TypedGraph, Unit
from graphmp.scaling.insertion.moved_gradients import under_its_name
from graphmp.scaling.losses.allreduce import with_reduces
from graphmp.tuning.given import predicted

_GATES = SWITCHES | MERGES | SELECTS


class Decisions(NamedTuple):
    """The dtypes of one graph body.

    Attributes:
        graph: the body and its units.
        groups: units that share a dtype.
        wanted: the result of painting for each unit; FREE leaves the choice to the minimum cut.
        placed: HALF or FLOAT for each unit, after the cut.
        timed: the placement by measured times; None without --costs.
    """

    graph: TypedGraph
    groups: Groups
    wanted: List[Paint]
    placed: List[Paint]
    timed: Optional[Timed] = None

    def units(self) -> Iterator[Tuple[Unit, Paint]]:
        """Each unit with its final colour."""
        return zip(self.graph.units, self.placed)

    def is_half(self, unit: int) -> bool:
        """Whether a unit is in half precision; FIXED and OTHER are not."""
        return unit >= 0 and self.placed[unit].colour == HALF

    def half_nodes(self) -> Set[str]:
        """Nodes with a unit in half precision."""
        return {unit.node for unit, p in self.units() if p.colour == HALF}


def decided(problem: Problem, settled: Mapping[Unit, Paint] = MappingProxyType({})) -> Decisions:
    """Decisions on a body: it is painted, then its casts are placed.

    Args:
        problem: the body.
        settled: units whose colour an earlier conversion chose. They keep it, unless they share
            their dtype with a unit that isn't among them.

    Raises:
        GraphmpError: GMP002 for a --fetch that names no node, GMP008 for an invalid graph.
    """
    graph, groups, wanted = painted(problem)
    if settled:
        _settle(graph, groups, wanted, settled)
    dtype = problem.config.compute_dtype
    prediction = predicted(problem.config.costs, dtype)
    if prediction is None:
        return Decisions(graph, groups, wanted, place(graph, groups, wanted, dtype))
    times = NodeTimes(graph, prediction, problem.body.name, problem.is_measured)
    timed = place_by_time(graph, groups, wanted, dtype, times, prediction.costs)
    return Decisions(graph, groups, wanted, timed.placed, timed)


def in_float32_again(problem: Problem, earlier: Decisions) -> Decisions:
    """Decisions on a body that measured times left in float32, after its loss scale was taken away.

    Times aren't asked again: without the scale's nodes they may decide otherwise. The placement on
    record is that of the body with a scale, by which a file of costs is known again.

    Args:
        problem: the body without a scale.
        earlier: the decisions on it with a scale.
    """
    graph, groups, wanted = painted(problem)
    known = dict(earlier.units())
    other = Paint(FLOAT, Reason(MEASURED, little(problem.config.compute_dtype)))
    placed = [
        known.get(unit, other) if p.colour in (FREE, HALF) else p
        for unit, p in zip(graph.units, wanted)
    ]
    return Decisions(graph, groups, wanted, placed, earlier.timed)


def in_half(problem: Problem) -> Decisions:
    """Decisions with everything in half precision that may be: for measuring it.

    Raises:
        GraphmpError: as for `decided`.
    """
    graph, groups, wanted = painted(problem)
    return Decisions(graph, groups, wanted, all_half(loosened(graph, groups, wanted)))


def painted(problem: Problem) -> Tuple[TypedGraph, Groups, List[Paint]]:
    """A body, its groups, and the colour of each unit before placement."""
    graph = _typed(problem)
    op_defs, config = problem.op_defs, problem.config
    policy = with_reduces(problem.policy, {graph.view.nodes[name].op for name in graph.joined})
    fetched = _fetched(problem, graph, policy.allow)
    pinned = pins.pin(graph, op_defs, config, policy, fetched)
    is_function = problem.body.function is not None
    guards = ranges.guarded(
        graph, policy, config.compute_dtype, overflowed("" if is_function else config.ranges)
    )
    guards = {**precise(graph, policy, config.compute_dtype), **guards}
    groups = Groups(graph, policy)
    return graph, groups, paint(graph, groups, pinned, guards, config, policy, op_defs)


def _settle(
    graph: TypedGraph, groups: Groups, wanted: List[Paint], settled: Mapping[Unit, Paint]
) -> None:
    """Give units that an earlier conversion decided on their colours."""
    for members in groups.members:
        earlier = [settled.get(graph.units[member]) for member in members]
        colours = {paint.colour if paint is not None else None for paint in earlier}
        if len(colours) == 1 and None not in colours:
            for member, paint in zip(members, earlier):
                if paint is not None:
                    wanted[member] = paint


def _typed(problem: Problem) -> TypedGraph:
    """The body with its units, and the facts about its gradient code."""
    body, plan = problem.body, problem.plan_here
    graph = TypedGraph(
        body.graph_def if body.function else with_inferred_shapes(body.graph_def), problem.op_defs
    )
    scopes = gradient_code(
        graph.view, problem.config.gradient_scope, plan.recorded if plan is not None else ()
    )
    if plan is not None:
        graph.forward = {
            name: forward
            for node, forward in plan.forward.items()
            for name in under_its_name(graph.view, node)
        }
        scopes.update(
            (scope, {name for node in nodes for name in under_its_name(graph.view, node)})
            for scope, nodes in plan.unnamed.items()
        )
    graph.idle = idle_nodes(graph.view, scopes.values())
    graph.unread = idle_nodes(graph.view, scopes.values(), control=False)
    graph.joined = problem.plan.joined if body.function is None else frozenset()
    graph.gradients = {name for nodes in scopes.values() for name in nodes} | graph.joined
    view = graph.view if body.function is None else _with_handles(body.graph_def)
    state = State(problem.meta_graph, view, problem.op_defs.get)
    graph.carried = _carried(graph, view, state, problem.policy.allow)
    if body.function is None:
        graph.late = late_reads(graph.view, state)
        graph.trainable = state.collected(tf.GraphKeys.TRAINABLE_VARIABLES)
    return graph


def _with_handles(graph_def: tf.GraphDef) -> GraphView:
    """The body of a function whose arguments that are handles count as variables."""
    copy = tf.GraphDef(node=graph_def.node)
    for node in copy.node:
        if node.op == ARGUMENT and node.attr["T"].type == RESOURCE:
            node.op = "VarHandleOp"
    return GraphView(copy)


def _carried(
    graph: TypedGraph, view: GraphView, state: State, allow: AbstractSet[str]
) -> AbstractSet[str]:
    """Nodes between a variable's value and a write that takes it, also through an inserted gate.

    `view` is of the graph, with a function's handles as variables.
    """
    nodes = view.nodes

    def taken(write: str) -> AbstractSet[str]:
        gates = view.traced(
            (port.node for port in view.inputs(write)),
            lambda name: name.startswith(SCOPE + "/") and nodes[name].op in _GATES,
        )
        return {port.node for each in (write, *gates) for port in view.inputs(each)}

    models = {name for name, node in nodes.items() if node.op in allow}
    return Carried(view, state, graph.gradients, models, taken).nodes()


def _fetched(problem: Problem, graph: TypedGraph, allow: AbstractSet[str]) -> Dict[str, Reason]:
    """Nodes that keep their dtype because they may be fetched, or for loss scaling."""
    found: Dict[str, Reason] = {}
    if problem.body.function is None:
        ahead = ahead_of_allow(graph, allow)
        nodes = graph.view.nodes
        outputs = {
            name for name, node in nodes.items() if name not in ahead and node.op not in allow
        }
        found = pins.fetched_nodes(problem.meta_graph, problem.config, graph, outputs)
    plan = problem.plan_here
    inside = problem.plan.float32_inside.get(problem.body.name, {})
    for name, reason in (plan.float32 if plan is not None else inside).items():
        if reason.kind != LOSS or name not in found:
            found[name] = reason
    return found
