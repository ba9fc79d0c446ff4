"""The first training run of a recipe's graph: unscaled or float32 training is reported."""

from __future__ import annotations

from typing import Any

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.state.live import ancestors, as_ops
from graphmp.recipe import state as states
from graphmp.recipe.rules import kept_by_rule, options_without_effect
from graphmp.recipe.say import say
from graphmp.recipe.updates import ungated
from graphmp.report.coverage import nothing_in_half
from graphmp.report.record import Record
from graphmp.tf_hooks import sessions


def before_run(session: Any, fetches: Any) -> None:
    """Called before a session runs: refuse updates by unscaled half-precision gradients.

    Warns once if everything trains in float32.

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
    untold = state.calls if not state.told else []
    if not state.violations and not untold:
        return
    above = ancestors(as_ops(fetches, graph))
    for op in state.violations:
        if op in above:
            raise GraphmpError("GMP016", violation(op))
    gradients = {name for call in untold for name in call.gradients}
    if any(op.name in gradients for op in above):
        state.told = True
        _tell(graph, untold[0].group.config)


def _tell(graph: Any, config: Config) -> None:
    """Report facts about the whole graph.

    Rules without matches, nothing in half precision, sums of gradients that may be applied again.
    """
    record = Record(left=kept_by_rule(graph, config))
    told = options_without_effect(graph, config) + nothing_in_half(
        graph.as_graph_def(), config, record
    )
    state = states.find(graph)
    told += [row for row in state.warnings if row["code"] == "GMP112"] if state is not None else []
    for row in told:
        say("%s: %s" % (row["code"], row["message"]))


def configured(given: Any, target: str, graph: Any) -> Any:
    """Session options without fused ops, which a server doesn't run in bfloat16."""
    state = states.find(graph)
    half = state is not None and any(
        config.compute_dtype == "bfloat16" for config in state.owner_of.values()
    )
    return sessions.unfused(given) if target and half else given


def violation(op: Any) -> str:
    """The fault of an update op, in one line."""
    return (
        "%s (%s): its gradient comes from half precision and is neither unscaled nor gated by"
        " graphmp; take it with tf.gradients or an optimizer, or use loss_scale='none'"
        % (op.name, op.type)
    )
