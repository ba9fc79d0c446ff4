"""The plan for the losses of one graph: the main graph, the body of a function, or an iteration."""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, Sequence, Tuple

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.structure.values import is_ones
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import ADDS
from graphmp.policy.reason import LOSS, LOSS_SCALE, Reason
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.fetched_gradients import kept_ports
from graphmp.scaling.plan.model import ScalePlan
from graphmp.scaling.plan.skip_plan import activations, plan_skips

_SUMS = ADDS | {"Sub"}
_LOSS = Reason(LOSS, "gradients are taken of it")
_SEED = Reason(LOSS_SCALE, "is multiplied by it in float32")
_KEPT = Reason(LOSS_SCALE, "gives the unscaled gradient")


def planned(
    graph: TrainingGraph,
    losses: Sequence[Loss],
    config: Config,
    allow: AbstractSet[str],
    warnings: List[Dict[str, str]],
    returning: AbstractSet[str] = frozenset(),
    apart: AbstractSet[str] = frozenset(),
) -> ScalePlan:
    """The plan for the main graph, or for a function's body.

    `returning` are gradient-taking functions that can get the scale, `apart` calls of functions
    that have their own.
    """
    served = [
        loss
        for loss in losses
        if not _refused(graph, config, loss, warnings)
        and not _left_in_calls(graph, config, loss, returning, warnings)
    ]
    skips = None
    if config.loss_scale == "dynamic" and served:
        skips = plan_skips(
            graph, served, activations(graph, allow), config.count_skipped_steps, apart
        )
    scopes = [(loss, scope) for loss in served for scope in loss.scopes]
    kept = [port for loss, scope in scopes for port in kept_ports(graph, config, loss, scope)]
    unscaled = [loss for loss in losses if loss not in served]
    return ScalePlan(
        served,
        unscaled,
        skips,
        kept,
        {
            **dict(_in_float32([scope for _, scope in scopes], kept)),
            **losses_in_float32(graph, losses),
        },
        {scope: graph.code[scope] for scope in [*graph.discovered, *graph.recorded]},
        graph.forward,
        graph.joined,
        warnings,
        recorded=list(graph.recorded.values()),
    )


def _in_float32(
    scopes: Sequence[GradientScope], kept: Sequence[Port]
) -> Iterator[Tuple[str, Reason]]:
    """Nodes that stay float32; of several reasons for one, the last holds."""
    for scope in scopes:
        yield from scope.degrees.float32.items()
    for port in kept:
        yield port.node, _KEPT
    for scope in scopes:
        for seed in scope.seeds:
            if seed.node in scope.nodes:
                yield seed.node, _SEED


def losses_in_float32(graph: TrainingGraph, losses: Sequence[Loss]) -> Dict[str, Reason]:
    """The forward nodes that are losses, scaled or not."""
    return {
        name: _LOSS
        for loss in losses
        for scope in loss.scopes
        if _is_of_loss(graph, scope)
        for name in scope.losses
    }


def _is_of_loss(graph: TrainingGraph, scope: GradientScope) -> bool:
    """Whether gradients are taken of a loss, not of activations.

    Those of activations have the user's own seeds, such as 1 minus the minimum of random numbers.
    """
    readers = (
        consumer.node for seed in scope.seeds for consumer in graph.view.consumers(seed.node)
    )
    return all(is_ones(graph.view, seed.node) for seed in scope.seeds) and not any(
        graph.view.nodes[name].op in _SUMS for name in readers
    )


def _refused(
    graph: TrainingGraph, config: Config, loss: Loss, warnings: List[Dict[str, str]]
) -> bool:
    """Whether a loss trains in a while loop, where no step can be skipped."""
    inside = (
        next((name for name in loss.nodes if graph.looped(name)), None)
        if any(map(graph.looped, loss.direct))
        else None
    )
    if inside is not None:
        text = (
            "it trains inside a while loop that does not order its updates: gradients are %s;"
            " parallel_iterations=1, for each loop around it, orders them"
        )
        what = "neither scaled nor clipped" if config.clip_norm else "not scaled"
        warnings.append(warning("GMP110", inside, text % what))
    return inside is not None


def _left_in_calls(
    graph: TrainingGraph,
    config: Config,
    loss: Loss,
    returning: AbstractSet[str],
    warnings: List[Dict[str, str]],
) -> bool:
    """Whether a loss's gradients are taken in functions that can't get the scale."""
    calls = [scope.call for scope in loss.scopes if scope.call]
    left = [call for call in calls if not graph.returning[call] <= returning]
    if left and config.loss_scale != "none":
        warnings.append(
            warning(
                "GMP110",
                left[0],
                "it calls a function that takes gradients, and that no scale can be brought into",
            )
        )
        return True
    return False
