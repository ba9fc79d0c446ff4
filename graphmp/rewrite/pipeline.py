"""The rewrite: plan the loss scale, insert it, decide on dtypes, apply the decisions, check.

It works on a copy of the given graph.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.mark import mark
from graphmp.graph.io.stored import Readable, StoredMetaGraph, copied, emptied
from graphmp.graph.structure.gradient_record import RecordedCall, valid
from graphmp.graph.structure.view import GraphView, view_of
from graphmp.once import once
from graphmp.policy.dtypes import is_in_half
from graphmp.policy.policy import Policy, tensor_core_ops
from graphmp.process_memory import collector_paused, give_back
from graphmp.report.record import Record
from graphmp.rewrite import check
from graphmp.rewrite.apply import apply, look_at_gradients
from graphmp.rewrite.decisions import Decisions, decided, in_float32_again
from graphmp.rewrite.problem import Problem, problems
from graphmp.rewrite.recognise import Recognised, recognise
from graphmp.rewrite.record import Notes, noted, record
from graphmp.scaling.insertion.as_built import AsBuilt
from graphmp.scaling.insertion.handles import pass_handles
from graphmp.scaling.insertion.insert import insert
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.model import ScalePlan
from graphmp.scaling.plan.plan import plan_scaling
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.tuning.given import predicted

Solver = Callable[[Problem], Decisions]
_Changed = Tuple[StoredMetaGraph, Record, Sequence[AsBuilt]]
_UNSCALED = {"loss_scale": "none"}  # flags that hold where no loss can be scaled
_LEFT_TO_IT = {**_UNSCALED, "clip_norm": 0.0}  # those for a graph that scales its own loss


class Rewriting:
    """A rewritten graph.

    Attributes:
        converted: the converted graph, stored.
        record: facts for the report.
        as_built: the values of scaled gradient code as the graph's own.
    """

    def __init__(self, converted: StoredMetaGraph, record: Record, as_built: Sequence[AsBuilt]):
        self.converted, self.record, self.as_built = converted, record, as_built

    @once
    def meta_graph(self) -> tf.MetaGraphDef:
        """The converted MetaGraphDef."""
        return self.converted.parsed()


def decide(meta_graph: tf.MetaGraphDef, config: Config, policy: Policy) -> Dict[str, Decisions]:
    """Decisions for the main graph ("") and each function that it calls; nothing is changed.

    Raises:
        GraphmpError: GMP002 for a --fetch that names no node, GMP008 for an invalid graph.
    """
    op_defs = OpDefs(meta_graph)
    plan = _planned(meta_graph, op_defs, config, policy).plan
    return {
        problem.body.name: decided(problem)
        for problem in problems(meta_graph, op_defs, config, policy, plan)
    }


@collector_paused()
def rewrite(
    meta_graph: Readable,
    config: Config,
    policy: Policy,
    recorded: Sequence[RecordedCall] = (),
    solve: Solver = decided,
    goes_on: bool = False,
) -> Rewriting:
    """Convert a graph that is already built.

    Args:
        meta_graph: the graph; it isn't changed. Of a stored graph there is only one copy in memory.
        config: the options.
        policy: the op lists.
        recorded: recorded calls of `tf.gradients`.
        solve: decides on a body.
        goes_on: whether another conversion's result trains on as it is.

    Raises:
        GraphmpError: GMP002, GMP008; GMP021 if the result fails its check; GMP022 for another
            conversion's result, unless it goes on.
    """
    op_defs = OpDefs(meta_graph)
    change = functools.partial(_changed, meta_graph, op_defs, policy, recorded, goes_on)
    by_times = bool(config.costs) and config.loss_scale == "dynamic"
    changed, facts, values = _by_times(change, config, solve) if by_times else change(config, solve)
    give_back()
    check.check_types(
        view_of(changed), OpDefs(changed) if changed.graph_def.library.function else op_defs
    )
    return Rewriting(check.loaded(meta_graph, changed), facts, values)


def _by_times(
    change: Callable[[Config, Solver], _Changed],
    config: Config,
    solve: Solver,
) -> _Changed:
    """The changed graph, without a scale if times leave all in float32: it would only be slower."""
    decisions: Dict[str, Decisions] = {}

    def noting(problem: Problem) -> Decisions:
        decisions[problem.body.name] = solve(problem)
        return decisions[problem.body.name]

    found = change(config, noting)
    if is_in_half(found[0].graph_def):
        return found
    return change(
        replace(config, loss_scale="none"),
        lambda problem: in_float32_again(problem, decisions[problem.body.name]),
    )


def _changed(
    meta_graph: Readable,
    op_defs: OpDefs,
    policy: Policy,
    recorded: Sequence[RecordedCall],
    goes_on: bool,
    config: Config,
    solve: Solver,
) -> _Changed:
    """The graph with all changes made, and what is known of them."""
    result = copied(meta_graph)
    view = view_of(meta_graph) if isinstance(meta_graph, StoredMetaGraph) else None
    special, training, plan = _planned(result, op_defs, config, policy, recorded, view, goes_on)
    scaled = insert(training, config, plan)
    if special.leave:
        return emptied(result), record(special, scaled, [], scaled.done), scaled.as_built
    op_defs = OpDefs(result) if plan.returned else op_defs
    give_back()  # the loss scale's scratch graph
    to_solve = problems(result, op_defs, config, policy, plan)
    is_painted = config.compute_dtype != "float32"
    painted = [_painted(problem, solve) for problem in to_solve] if is_painted else []
    give_back()
    looks = list(look_at_gradients(result, op_defs, scaled.first_steps, policy.allow))
    handed = pass_handles(result.graph_def) if plan.inside else []
    instead = _LEFT_TO_IT if special.scales_itself else _UNSCALED if _scales_none(plan) else {}
    mark(result, config, "rewrite", instead)
    done = [*handed, *scaled.done, *(row for notes in painted for row in notes.done), *looks]
    prediction = predicted(config.costs, config.compute_dtype)
    may_vanish = plan if config.compute_dtype == "float16" else None
    facts = record(special, scaled, painted, done, prediction, may_vanish)
    return emptied(result), facts, scaled.as_built


def _scales_none(plan: ScalePlan) -> bool:
    """Whether there are losses, and none of them can be scaled, as a warning says."""
    scaled = (*plan.losses, *plan.inside, *plan.loops, *plan.returned)
    return bool(plan.unscaled or plan.unscaled_inside) and not scaled


def _painted(problem: Problem, solve: Solver) -> Notes:
    """Notes on a body, which is changed as decided."""
    decisions = solve(problem)
    return noted(problem, decisions, apply(problem, decisions))


class _Planned(NamedTuple):
    """Facts about a graph, its TrainingGraph, and the plan of its loss scaling."""

    special: Recognised
    training: TrainingGraph
    plan: ScalePlan


def _planned(
    meta_graph: tf.MetaGraphDef,
    op_defs: OpDefs,
    config: Config,
    policy: Policy,
    recorded: Sequence[RecordedCall] = (),
    view: Optional[GraphView] = None,
    goes_on: bool = False,
) -> _Planned:
    calls = valid(recorded, meta_graph.graph_def.node, config.gradient_scope)
    training = TrainingGraph(meta_graph, config, op_defs, calls, inside=recorded, view=view)
    special = recognise(
        meta_graph, training.view, config, policy, training.gradients, recorded, goes_on
    )
    allow = frozenset(tensor_core_ops()) | policy.allow
    leave = special.leave or special.scales_itself
    return _Planned(special, training, plan_scaling(training, config, allow, leave, recorded))
