"""The plan for while loops that train inside."""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, Optional, Sequence

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import Frames, frames
from graphmp.scaling.losses.loops import Path, iteration, pivot
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.graph_plan import planned
from graphmp.scaling.plan.model import InLoop
from graphmp.scaling.plan.skip_plan import SkipPlan
from graphmp.wording import plural

_BEHIND = (
    "it is written once behind a while loop that trains (%s), and also if the loss scale skips"
    " iterations of the loop (%s)"
)


def plan_loops(
    graph: TrainingGraph,
    losses: Sequence[Loss],
    config: Config,
    allow: AbstractSet[str],
    returning: AbstractSet[str],
) -> Iterator[InLoop]:
    """Decide on the while loops that train inside and order their updates.

    `returning` is as for `planned`.
    """
    looped = [
        name
        for loss in losses
        for scope in loss.scopes
        for name in scope.starts
        if graph.looped(name)
    ]
    if not looped:
        return
    inside = frames(graph.view)
    for path in dict.fromkeys(inside[name] for name in looped):
        loop = iteration(graph.meta_graph, inside, path)
        once = TrainingGraph(loop.meta_graph, config, graph.op_defs)
        found = [
            loss
            for loss in find_losses(once, config)
            if all(graph.loops(name) == path for name in loss.nodes)
        ]
        writes = {name for loss in found for name in loss.direct}
        start = pivot(graph, loop, writes)
        if found and start is not None and not writes & conditional(once.view):
            plan = planned(once, found, config, allow, [], returning)
            yield InLoop(
                once, plan._replace(skips=plan.skips and _within(plan.skips, inside, path)), start
            )


def behind_loops(
    graph: TrainingGraph, loops: Sequence[InLoop], skips: Optional[SkipPlan]
) -> Iterator[Dict[str, str]]:
    """A warning for each loop behind which something is written once for all iterations.

    `skips`: the part of the plan that isn't decided on in loops.
    """
    decided = {*skips.by_loss, *skips.by_value} if skips else set()
    for loop in loops:
        updates = [name for loss in loop.plan.losses for name in loss.direct]
        behind = graph.view.descendants(updates) & set(graph.state.writes) - decided
        found = [name for name in graph.view.in_graph_order(behind) if not graph.looped(name)]
        if found:
            text = _BEHIND % (updates[0], plural(len(found), "write"))
            yield warning("GMP112", found[0], text)


def without(skips: Optional[SkipPlan], loops: Sequence[InLoop]) -> Optional[SkipPlan]:
    """The part of a plan that isn't decided on in a loop."""
    if skips is None:
        return None
    plans = [loop.plan.skips for loop in loops if loop.plan.skips is not None]
    decided = {name for plan in plans for name in [*plan.by_loss, *plan.by_value, *plan.in_loops]}
    by_loss = {name: numbers for name, numbers in skips.by_loss.items() if name not in decided}
    always = [
        {name: why for name, why in each.items() if name not in decided} for each in skips.always
    ]
    return skips._replace(
        by_loss=by_loss,
        in_loops=[name for name in skips.in_loops if name not in decided],
        always=always,
    )


def _within(skips: SkipPlan, inside: Frames, path: Path) -> SkipPlan:
    """The part of a plan for one loop: a step's other writes run once for all iterations."""

    def lies(name: str) -> bool:
        return inside.get(name) == path

    return SkipPlan(
        {name: numbers for name, numbers in skips.by_loss.items() if lies(name)},
        {name: tuple(filter(lies, names)) for name, names in skips.by_value.items() if lies(name)},
        [name for name in skips.in_loops if inside.get(name, ())[: len(path)] == path],
        [
            {name: why for name, why in each.items() if inside.get(name, ())[: len(path)] == path}
            for each in skips.always
        ],
        skips.within,
    )
