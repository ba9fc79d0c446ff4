"""Writes in skipped steps, in a graph that the recipe built."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Set

from graphmp.graph.state.live import ancestors, descendants, is_initializer, is_write
from graphmp.graph.state.state_kinds import GO_ON, kind
from graphmp.loss_scale.words import BY_OWN_VALUES, WHEN_TAKEN
from graphmp.naming import is_own
from graphmp.recipe import state as states

_BESIDE = "it is no part of the update, and runs wherever the step does"


def going_on(graph: Any, state: states.GraphState, scope: str) -> List[Dict[str, str]]:
    """Rows of the report: a node that changes state in a skipped step of one loss, and why."""
    counted = state.always.get(scope, {})
    gated = set(state.applied.get(scope, ())) - counted.keys()
    updates = [graph.get_operation_by_name(name) for name in state.applied.get(scope, ())]
    return [
        {"node": op.name, "why": why}
        for op, why in _changes(ancestors(descendants(updates)), gated, counted)
    ]


def _changes(step: Set[Any], gated: Set[str], counted: Dict[str, str]) -> Iterator[Any]:
    for op in sorted(step, key=lambda op: op.name):
        if op.name in gated or is_initializer(op) or (is_own(op.name) and op.name not in counted):
            continue
        if kind(op.type) in GO_ON:
            yield op, GO_ON[kind(op.type)]
        elif is_write(op):
            why = counted.get(op.name) or (
                WHEN_TAKEN if op.type.endswith("AccumulatorApplyGradient") else _by_value(op)
            )
            if why:
                yield op, why


def _by_value(op: Any) -> str:
    """Why a write that no flag of the loss skips runs; empty if a flag decides on its value."""
    made = {tensor.op.name.split("/")[1] for tensor in op.inputs if is_own(tensor.op.name)}
    if "accumulators" in made:
        return ""
    return BY_OWN_VALUES if "moving_averages" in made else _BESIDE
