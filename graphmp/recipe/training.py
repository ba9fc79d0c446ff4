"""The first training run of a graph that the recipe touched: it never trains unscaled in silence."""

from __future__ import annotations

from typing import Any

from graphmp.errors import GraphmpError
from graphmp.graph.live import ancestors, as_ops
from graphmp.hooks import sessions
from graphmp.recipe import state as states
from graphmp.recipe.updates import ungated


def refuse_unscaled(session: Any, fetches: Any) -> None:
    """Called before a session runs: refuses to run an update that a half-precision gradient reaches unscaled.

    Raises:
        GraphmpError: GMP016, naming the update op.
    """
    graph = session.graph
    state = states.find(graph)
    if state is None:
        return
    if graph.version != state.checked_version:
        state.violations = ungated(graph)
        state.checked_version = graph.version
    if not state.violations:
        return
    above = ancestors(as_ops(fetches, graph))
    for op in state.violations:
        if op in above:
            raise GraphmpError("GMP016", violation(op))


def configured(given: Any, target: str, graph: Any) -> Any:
    """What a session is made with in place of its own options: a server runs no fused ops in bfloat16."""
    state = states.find(graph)
    half = state is not None and any(config.compute_dtype == "bfloat16" for config in state.owner_of.values())
    return sessions.unfused(given) if target and half else given


def violation(op: Any) -> str:
    """Says what is wrong with an update op, in one line."""
    return (
        "%s (%s): its gradient comes from half precision and is neither unscaled nor gated by graphmp; "
        "take it with tf.gradients or an optimizer, or use loss_scale='none'" % (op.name, op.type)
    )
