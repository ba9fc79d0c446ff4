"""The plan for functions that train inside, and for those that take gradients."""

from __future__ import annotations

import dataclasses
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.functions import called_functions
from graphmp.graph.structure.gradient_names import gradient_scopes
from graphmp.graph.structure.gradient_record import RecordedCall, valid
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import CHOICES
from graphmp.scaling.losses.inside import OpenBody, opened
from graphmp.scaling.losses.losses import behind_train_op, find_losses
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.returned import Threads
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.graph_plan import planned
from graphmp.scaling.plan.model import Inside
from graphmp.scaling.plan.skip_plan import SkipPlan, activations, plan_skips

_OF_BOTH = (
    "it belongs to a step here and to one inside a function: it is skipped with the first alone,"
    " though the other trains"
)


class StepInside(NamedTuple):
    """A function that trains inside: its body, the body's TrainingGraph, and the losses in it."""

    body: OpenBody
    graph: TrainingGraph
    losses: Sequence[Loss]


def steps_inside(
    graph: TrainingGraph, config: Config, recorded: Sequence[RecordedCall] = ()
) -> Iterator[StepInside]:
    """The functions that train inside.

    Not those in gradient code, whose inputs are scaled already.
    """
    writing = _writing(graph)
    called = (
        called_functions(graph.meta_graph.graph_def)
        if writing and not config.names_gradients
        else ()
    )
    chosen, config = behind_train_op(graph, config), dataclasses.replace(config, train_op=())
    for body in opened(
        [function for name, function in writing.items() if name in called],
        graph.meta_graph,
        graph.view,
        graph.op_defs,
    ):
        if not body.calls & graph.gradients and (chosen is None or body.calls & chosen):
            calls = valid(recorded, body.meta_graph.graph_def.node, in_function=True)
            inside = TrainingGraph(
                body.meta_graph, config, graph.op_defs, calls, frozenset(), recorded
            )
            losses = find_losses(inside, config)
            if losses:
                yield StepInside(body, inside, losses)


def _writing(graph: TrainingGraph) -> Dict[str, Any]:
    """The functions that write state, by name."""
    library = graph.meta_graph.graph_def.library.function
    return {
        function.signature.name: function
        for function in library
        if function.signature.name in graph.state.writing_functions
    }


def plan_functions(
    graph: TrainingGraph,
    steps: Sequence[StepInside],
    config: Config,
    allow: AbstractSet[str],
    warnings: List[Dict[str, str]],
    returning: AbstractSet[str],
) -> Tuple[List[Inside], List[Tuple[OpenBody, Loss]]]:
    """Decide on the functions that train inside; report those that can't be scaled.

    Returns their losses too.
    """
    found: List[Inside] = []
    unscaled: List[Tuple[OpenBody, Loss]] = []
    for step in steps:
        plan = planned(step.graph, step.losses, config, allow, [], returning)
        if plan.unscaled or (
            step.body.compiled and config.loss_scale == "dynamic"
        ):  # XLA has no dead ops
            unscaled += [(step.body, loss) for loss in step.losses]
        else:
            found.append(Inside(step.body, step.graph, plan))
    names = {each.body.name for each in found}
    left = {
        name
        for name, function in _writing(graph).items()
        if gradient_scopes({node.name for node in function.node_def})
    }
    left |= {body.name for body, _ in unscaled}
    warnings += [
        warning("GMP110", name, "the function trains inside itself: its gradients are not scaled")
        for name in _writing(graph)
        if name in left - names
    ]
    return found, unscaled


def plan_returned(
    graph: TrainingGraph,
    steps: Sequence[StepInside],
    config: Config,
    allow: AbstractSet[str],
    recorded: Sequence[RecordedCall],
) -> List[Inside]:
    """Decide on the gradient-taking functions whose results are applied elsewhere; all or none.

    They are applied by the main graph, or by a function that it calls.
    """
    graph_def = graph.meta_graph.graph_def
    names = {
        name
        for each in [graph, *(step.graph for step in steps)]
        for functions in each.returning.values()
        for name in functions
    }
    if not names or not Threads(graph_def, names, applying(steps)).possible(
        set(called_functions(graph_def)), graph.state.writing_functions
    ):
        return []
    config, found = dataclasses.replace(config, loss_scale=1.0, train_op=()), []
    for body in opened(
        [f for f in graph_def.library.function if f.signature.name in names],
        graph.meta_graph,
        graph.view,
        graph.op_defs,
    ):
        calls = valid(recorded, body.meta_graph.graph_def.node, in_function=True)
        inside = TrainingGraph(body.meta_graph, config, graph.op_defs, calls, body.results)
        plan = planned(
            inside,
            find_losses(inside, config),
            config,
            allow,
            [],
        )
        if len(plan.losses) == 1 and not plan.unscaled:
            found.append(Inside(body, inside, plan))
    return found if len(found) == len(names) else []


def applying(steps: Sequence[Union[StepInside, Inside]]) -> AbstractSet[str]:
    """The functions among those that train inside whose gradients others take."""
    return {step.body.name for step in steps if step.graph.returning}


def behind_calls(
    graph: TrainingGraph,
    inside: Sequence[Inside],
    skips: Optional[SkipPlan],
    config: Config,
    allow: AbstractSet[str],
    warnings: List[Dict[str, str]],
    updates: AbstractSet[str],
) -> Dict[str, AbstractSet[int]]:
    """Writes of the main graph that run with calls of training functions.

    The rules are those for writes that run with an update (`skip_plan.py`). Not with a loop of
    calls, some of whose steps may train. If a function is called from several places, or in a
    branch, it isn't known outside which call was skipped: that is reported. So are writes that
    belong to a step of the main graph too, whose flag they keep. `updates`: those of its losses.
    """
    hidden = conditional(graph.view)
    calls = [
        tuple(sorted(name for name in each.body.once if not graph.looped(name))) for each in inside
    ]
    told = {
        n
        for n, names in enumerate(calls)
        if len(inside[n].body.calls) == len(names) == 1
        and not hidden.intersection(names)
        and graph.view.nodes[names[0]].op not in CHOICES
    }
    steps = list(map(_as_loss, calls))
    found = plan_skips(graph, steps, activations(graph, allow), config.count_skipped_steps).by_loss
    decided = {name for names in calls for name in names} | (
        set() if skips is None else {*skips.by_loss, *skips.by_value, *skips.in_loops}
    )
    behind = {
        name: numbers
        for name, numbers in found.items()
        if name not in decided and not graph.looped(name)
    }
    text = (
        "it belongs to a step inside a function that is called in several places, or in a branch: a"
        " skipped step runs it all the same"
    )
    warnings += [
        warning("GMP112", name, text) for name, numbers in behind.items() if not numbers <= told
    ]
    outside = skips.by_loss if skips is not None else {}
    warnings += [
        warning("GMP112", name, _OF_BOTH)
        for name in found
        if name in outside and name not in updates
    ]
    return {name: numbers for name, numbers in behind.items() if numbers <= told}


def _as_loss(calls: Tuple[str, ...]) -> Loss:
    """Calls of a training function as the updates of a loss, whose flag they return."""
    return Loss(
        scopes=(),
        gradients=(),
        checked=tuple(Port(name, 0) for name in calls),
        reduced=False,
        added_up=False,
        arrivals=(),
        fetched=False,
        updates=calls,
        direct=calls,
    )
