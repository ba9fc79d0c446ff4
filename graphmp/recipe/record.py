"""The record of the recipe, for the report."""

from __future__ import annotations

from typing import Any, Dict, List

from graphmp.config import Config
from graphmp.errors import GraphmpError, warning
from graphmp.recipe import state as states
from graphmp.recipe.going_on import going_on
from graphmp.recipe.rules import kept_by_rule, options_without_effect
from graphmp.recipe.training import violation
from graphmp.recipe.updates import ungated
from graphmp.report.record import Record


def record(graph: Any, config: Config) -> Record:
    """Facts about a graph built under the recipe: changes with reasons, repairs, losses, warnings.

    Raises:
        GraphmpError: GMP016 if an update would read a gradient that is not unscaled, or not gated.
    """
    state = states.of(graph)
    for op in ungated(graph):
        raise GraphmpError("GMP016", violation(op))
    return Record(
        warnings=state.warnings + _no_gradients(state) + options_without_effect(graph, config),
        losses=[_loss(graph, state, group) for group in state.groups],
        scales=[
            {"scope": g.scale.scope, "kind": g.scale.kind, "initial": g.scale.initial}
            for g in state.groups
        ],
        done=state.done,
        repaired=state.repaired,
        left=kept_by_rule(graph, config),
    )


def _loss(graph: Any, state: states.GraphState, group: states.LossGroup) -> Dict[str, Any]:
    calls = [call for call in state.calls if call.group is group]
    updates = state.applied.get(group.scale.scope, [])
    return {
        "gradient_scope": ", ".join(sorted({call.scope for call in calls})),
        "loss": _joined(call.losses for call in calls),
        "seeds": _joined(call.seeds for call in calls),
        "gradients": _joined(call.gradients for call in calls),
        "updates": updates,
        "scale": "" if group.scale.kind == "none" else "graphmp/%s/current" % group.scale.scope,
        "unscale": [] if group.scale.kind == "none" else _joined(call.unscaled for call in calls),
        "finite": ", ".join(call.finite.op.name for call in calls if call.finite is not None),
        "clip": "graphmp/%s/clip_by_global_norm" % group.scale.scope
        if group.config.clip_norm and calls
        else "",
        "gated": [name for name in updates if name not in state.always.get(group.scale.scope, {})]
        if group.scale.skips
        else [],
        "not_skipped": going_on(graph, state, group.scale.scope) if group.scale.skips else [],
    }


def _joined(lists: Any) -> List[str]:
    return [name for names in lists for name in names]


def _no_gradients(state: states.GraphState) -> List[Dict[str, str]]:
    if state.calls:
        return []
    return [
        warning(
            "GMP105",
            "",
            "no gradients were taken of what the build function made: nothing is scaled or clipped",
        )
    ]
