"""Inserting the loss scale into a graph that is already built.

Order, always: gradients, float32, divide by the scale, finite check, clip, apply or skip.

1. Seeds are multiplied by the scale; the loss itself doesn't change.
2. Each output that leaves gradient code is divided by it, in float32, for all consumers outside.
3. The finite check reads the gradients on their way to updates; if they come out of accumulators or
   are fed, there; behind an all-reduce that adds gradients of other processes (`allreduce.py`).
4. The clip takes the same gradients. For towers, and behind an all-reduce, it takes the inputs of
   the updates: averages.
5. The flag decides whether the step's writes happen (`skip_plan.py`, `gates.py`).

The graph is still float32: painting comes afterwards, and nodes below `graphmp/` stay float32.
"""

from __future__ import annotations

import itertools
from typing import Dict

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.edit.editing import Editor
from graphmp.loss_scale.scales import COLLECTION
from graphmp.policy.op_sets import ENTERS
from graphmp.scaling.insertion.checkpoints import (
    UNSAVED,
    ScaleState,
    initialise,
    save_and_restore,
)
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.functions import (
    gate_behind,
    insert_inside,
    insert_returned,
    pass_scales,
)
from graphmp.scaling.insertion.inserted import Inserted, add_inner, row_of, taken_inside
from graphmp.scaling.insertion.loops import insert_in_loop, list_in_contexts
from graphmp.scaling.insertion.scaled import given_to_calls, scale_losses, splice, trained
from graphmp.scaling.insertion.threads import Applied
from graphmp.scaling.losses.returned import Threads
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.functions import applying
from graphmp.scaling.plan.model import ScalePlan


def insert(graph: TrainingGraph, config: Config, plan: ScalePlan) -> Inserted:
    """Scale the losses of a graph, which is changed, by a plan.

    Including those inside functions.
    """
    result = Inserted([], [], [], {}, list(plan.warnings), [])
    if plan.losses or plan.inside or plan.loops:
        _insert(graph, config, plan, result)
    result.losses.extend(
        dict(row_of(loss), in_loop=taken_inside(graph, loss)) for loss in plan.unscaled
    )
    result.losses.extend(row_of(loss, body=body) for body, loss in plan.unscaled_inside)
    for each in plan.returned if not _gives_scale(config, plan) else ():
        add_inner(result, plan, each.body, row_of(each.plan.losses[0], body=each.body))
    return result


def _insert(graph: TrainingGraph, config: Config, plan: ScalePlan, result: Inserted) -> None:
    scopes = ("loss_scale_%d" % number if number else "loss_scale" for number in itertools.count())
    editor, part = Editor(graph.meta_graph.graph_def), Fragment()
    made = scale_losses(graph, editor, part, config, plan, scopes, result)
    given = given_to_calls(made)
    applied: Dict[str, Dict[str, Applied]] = {}
    states = [
        ScaleState(each.scale.variables, trained(graph, loss))
        for loss, each in zip(plan.losses, made)
    ]
    for loop in plan.loops:
        states += insert_in_loop(
            loop, graph.meta_graph, editor, part, config, scopes, result, given
        )
    made_inside = [
        insert_inside(inside, part, config, scopes, result, applied) for inside in plan.inside
    ]
    states += [state for each in made_inside for state in each]
    returned = plan.returned if _gives_scale(config, plan) else ()
    flags = {
        each.body.name: insert_returned(each, plan, config, scopes, result) for each in returned
    }
    late = gate_behind(graph, editor, part, plan, made_inside, result) if plan.behind else {}
    if config.loss_scale == "dynamic":
        initialise(graph, editor, states)
        unsaved = save_and_restore(graph.view, editor, part, states)
        result.warnings.extend(warning("GMP126", name, UNSAVED) for name in unsaved)
    splice(
        graph, editor, part, made, {tf.GraphKeys.GLOBAL_VARIABLES: False, COLLECTION: True}, result
    )
    for name, others in late.items():
        editor.wait_for(name, others)
    if returned:
        result.done[:0] = pass_scales(
            graph,
            editor,
            Threads(graph.meta_graph.graph_def, flags.keys(), applying(plan.inside)),
            given,
            applied,
            flags,
        )
    if any(editor.nodes[name].op in ENTERS for name in editor.added):
        list_in_contexts(graph, editor)


def _gives_scale(config: Config, plan: ScalePlan) -> bool:
    """Whether gradient-taking functions get a scale."""
    plans = [plan, *(each.plan for each in plan.inside), *(each.plan for each in plan.loops)]
    return config.loss_scale != "none" and any(
        scope.call for each in plans for loss in each.losses for scope in loss.scopes
    )
