"""The plan of loss scaling for a graph: `convert` applies it, `inspect` and `explain` read it."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, Iterator, List, Sequence

from graphmp.config import Config
from graphmp.errors import GraphmpError, warning
from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.gradient_record import RecordedCall
from graphmp.policy.op_sets import UPDATE_PREFIXES
from graphmp.scaling.losses.directions import Direction, directions
from graphmp.scaling.losses.idle import IdleCode, idle_code, idle_functions
from graphmp.scaling.losses.losses import behind_train_op, find_losses
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.functions import (
    StepInside,
    behind_calls,
    plan_functions,
    plan_returned,
    steps_inside,
)
from graphmp.scaling.plan.graph_plan import losses_in_float32, planned
from graphmp.scaling.plan.loops import behind_loops, plan_loops, without
from graphmp.scaling.plan.model import ScalePlan


def plan_scaling(
    graph: TrainingGraph,
    config: Config,
    allow: AbstractSet[str],
    leave: bool,
    recorded: Sequence[RecordedCall] = (),
) -> ScalePlan:
    """Decide on the losses of a graph.

    Args:
        graph: the graph.
        config: loss scale, clip, and names of losses that aren't found.
        allow: matmuls and convolutions.
        leave: only list the losses: the graph scales them itself, or isn't converted.
        recorded: recorded calls of `tf.gradients`, for those inside functions.

    Raises:
        GraphmpError: GMP002 for a --loss, --train_op or --gradient_scope that doesn't exist.
    """
    losses, steps = find_losses(graph, config), list(steps_inside(graph, config, recorded))
    ways = _directions(graph, losses, steps)
    float32_inside = {step.body.name: losses_in_float32(step.graph, step.losses) for step in steps}
    if not leave:
        _check_train_op(graph, config, losses, steps)
    if leave or (config.loss_scale == "none" and not config.clip_norm):
        unscaled = [(step.body, loss) for step in steps for loss in step.losses]
        returned = plan_returned(graph, [], config, allow, recorded)
        return planned(graph, [], config, allow, [])._replace(
            unscaled=losses,
            float32=losses_in_float32(graph, losses),
            unscaled_inside=unscaled,
            float32_inside=float32_inside,
            returned=returned,
            directions=ways,
        )
    warnings = [*_assumed(graph), *_unscaled_updates(graph, losses, config)]
    returned = plan_returned(graph, steps, config, allow, recorded)
    returning = {each.body.name for each in returned}
    loops = list(plan_loops(graph, losses, config, allow, returning))
    scopes = {scope.scope for loop in loops for loss in loop.plan.losses for scope in loss.scopes}
    left = [loss for loss in losses if not any(scope.scope in scopes for scope in loss.scopes)]
    inside, unscaled = plan_functions(graph, steps, config, allow, warnings, returning)
    apart = {call for each in inside for call in each.body.calls}
    plan = planned(graph, left, config, allow, warnings, returning, apart)
    float32 = {
        **plan.float32,
        **{name: reason for loop in loops for name, reason in loop.plan.float32.items()},
    }
    skips = without(plan.skips, loops)
    if config.loss_scale == "dynamic":
        warnings.extend(behind_loops(graph, loops, skips))
    behind = (
        behind_calls(
            graph,
            inside,
            skips,
            config,
            allow,
            warnings,
            {name for loss in left for name in loss.direct},
        )
        if config.loss_scale == "dynamic" and inside
        else {}
    )
    return plan._replace(
        skips=skips,
        float32=float32,
        inside=inside,
        unscaled_inside=unscaled,
        float32_inside=float32_inside,
        loops=loops,
        returned=returned,
        behind=behind,
        warnings=warnings,
        idle=_idle(graph, losses, steps, config),
        directions=ways,
    )


def _check_train_op(
    graph: TrainingGraph, config: Config, losses: Sequence[Loss], steps: Sequence[StepInside]
) -> None:
    """Check that each named op runs an update, or a function that trains."""
    trains = {name for loss in losses for name in loss.updates} | set(_kernels(graph))
    trains |= {call for step in steps for call in step.body.calls}
    for name in config.train_op:
        if trains.isdisjoint(_behind(graph, config, name)):
            every = find_losses(graph, dataclasses.replace(config, train_op=()))
            updates = {update for loss in every for update in loss.updates}
            waiting = {op for name in updates for op in graph.view.control_consumers(name)}
            groups = [op for op in sorted(waiting) if graph.view.nodes[op].op == "NoOp"]
            accepted = [op for op in groups if not trains.isdisjoint(_behind(graph, config, op))]
            raise GraphmpError(
                "GMP002",
                "--train_op=%s: it runs no update by a gradient; accepted are ops that do, here: %s"
                % (name, ", ".join(accepted[:5]) or "none"),
            )


def _behind(graph: TrainingGraph, config: Config, name: str) -> AbstractSet[str]:
    return behind_train_op(graph, dataclasses.replace(config, train_op=(name,))) or frozenset()


def _kernels(graph: TrainingGraph) -> Iterator[str]:
    """Update kernels, such as ApplyAdam."""
    return (
        name for name in graph.state.writes if graph.view.nodes[name].op.startswith(UPDATE_PREFIXES)
    )


def _idle(
    graph: TrainingGraph, losses: Sequence[Loss], steps: Sequence[StepInside], config: Config
) -> Dict[str, IdleCode]:
    """Idle gradient code, unless a flag names what trains or nothing is scaled."""
    if config.loss_scale == "none" or config.names_training:
        return {}
    served = {
        name
        for each in [graph, *(step.graph for step in steps)]
        for functions in each.returning.values()
        for name in functions
    }
    found = {**idle_code(graph, losses), **idle_functions(graph, losses, served)}
    for step in steps:
        found.update(idle_code(step.graph, step.losses, step.body.name))
    return found


def _directions(
    graph: TrainingGraph, losses: Sequence[Loss], steps: Sequence[StepInside]
) -> Dict[str, Direction]:
    """Gradient code whose direction a loss reads, in the main graph and in functions that train."""
    found = directions(graph, losses)
    for step in steps:
        found.update(directions(step.graph, step.losses, step.body.name))
    return found


def _assumed(graph: TrainingGraph) -> Iterator[Dict[str, str]]:
    """Nodes that count as gradient code by their names alone; reported once."""
    name = next(iter(graph.assumed), None)
    if name is not None:
        text = (
            "its name says that it is of the gradient of %s, and it takes no gradients (%d such"
            " nodes): it counts as gradient code; "
        )
        text += "--gradient_scope=SCOPE, for each call of tf.gradients that trains, says what does"
        yield warning("GMP113", name, text % (graph.assumed[name], len(graph.assumed)))


def _unscaled_updates(
    graph: TrainingGraph, losses: Sequence[Loss], config: Config
) -> Iterator[Dict[str, str]]:
    """Update kernels without known gradient code; reported once."""
    served = {name for loss in losses for name in loss.updates}
    chosen = behind_train_op(graph, config)
    checked = graph.queued if losses else frozenset()  # they depend on their own values
    apart = [name for name in _kernels(graph) if name in checked - served]
    if apart and config.clip_norm:
        text = "its gradient comes out of a queue, others of the loss don't: it is not clipped"
        yield warning("GMP103", apart[0], text)
    left = [
        name
        for name in _kernels(graph)
        if name not in served | checked and (chosen is None or name in chosen)
    ]
    queued = _queued(graph, left)
    if queued:
        text = (
            "its gradient comes out of a queue (%d such updates): it is neither scaled nor checked;"
            " --compute_dtype=bfloat16 has the range of float32"
        )
        yield warning("GMP110", queued[0], text % len(queued))
    left = [name for name in left if name not in queued]
    if left and not config.names_gradients:
        text = (
            "no gradient code was found for it (%d such updates): its gradient is neither scaled"
            " nor checked; --gradient_scope names that"
        )
        yield warning("GMP110", left[0], text % len(left))


def _queued(graph: TrainingGraph, updates: Sequence[str]) -> List[str]:
    """The updates that depend on a queue or staging area, if gradients are put into one."""
    view = graph.view
    queues = {name for name, node in view.nodes.items() if kind(node.op) == "queue"}
    if not updates or queues.isdisjoint(view.descendants(graph.gradients, control=False)):
        return []
    behind = view.descendants(queues, control=False)
    return [name for name in updates if name in behind]
