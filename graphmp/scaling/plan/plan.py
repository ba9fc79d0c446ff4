"""The plan of loss scaling for a graph: `convert` applies it, `inspect` and `explain` read it."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import Frames, frames
from graphmp.graph.structure.functions import called_functions
from graphmp.graph.structure.gradient_names import gradient_scopes
from graphmp.graph.structure.gradient_record import RecordedCall, valid
from graphmp.graph.structure.values import is_one
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import ADDS, EXITS, UPDATE_PREFIXES
from graphmp.policy.reason import LOSS_SCALE, Reason
from graphmp.scaling.losses.inside import OpenBody, opened
from graphmp.scaling.losses.loops import Path, iteration, pivot
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.returned import Threads
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.fetched_gradients import kept_ports
from graphmp.scaling.plan.skip_plan import SkipPlan, activations, plan_skips

_SUMS = ADDS | {"Sub"}
LOSS = Reason(LOSS_SCALE, "gradients of this loss are multiplied by it")
_SEED = Reason(LOSS_SCALE, "is multiplied by it in float32")
_KEPT = Reason(LOSS_SCALE, "gives the unscaled gradient")


class ScalePlan(NamedTuple):
    """The plan of loss scaling.

    Attributes:
        losses: the scaled losses: their seeds are multiplied; results of their gradient code are
            divided, checked and clipped.
        unscaled: the unchanged losses.
        skips: the condition of each write; None if no step is skipped.
        kept: outputs of gradient code that are unscaled under their own names.
        float32: nodes that stay float32, with the reason.
        unnamed: gradient code that isn't known by names, by scope.
        forward: the forward nodes of those nodes.
        joined: nodes that belong to gradient code though they are behind it: nodes that pass
            gradients to all-reduces, and these.
        warnings: rows of the report.
        inside: the changes in functions that train inside.
        unscaled_inside: unchanged losses in functions, with the bodies that contain them.
        loops: the changes in while loops that train inside.
        returned: the changes in functions that take gradients and return them; the unchanged
            functions if there is no scale.
        behind: writes of the main graph that belong to the steps of functions, with indices into
            `inside`.
    """

    losses: Sequence[Loss]
    unscaled: Sequence[Loss]
    skips: Optional[SkipPlan]
    kept: Sequence[Port]
    float32: Mapping[str, Reason]
    unnamed: Mapping[str, AbstractSet[str]]
    forward: Mapping[str, str]
    joined: AbstractSet[str]
    warnings: Sequence[Dict[str, str]]
    inside: Sequence[Inside] = ()
    unscaled_inside: Sequence[Tuple[OpenBody, Loss]] = ()
    loops: Sequence[InLoop] = ()
    returned: Sequence[Inside] = ()
    behind: Mapping[str, AbstractSet[int]] = MappingProxyType({})
    recorded: Sequence[RecordedCall] = ()


class StepInside(NamedTuple):
    """A function that trains inside: its body, the body's TrainingGraph, and the losses in it."""

    body: OpenBody
    graph: TrainingGraph
    losses: Sequence[Loss]


class Inside(NamedTuple):
    """A function that trains inside.

    Attributes:
        body: its body, to be changed.
        graph: the body's TrainingGraph.
        plan: the changes in it.
    """

    body: OpenBody
    graph: TrainingGraph
    plan: ScalePlan


class InLoop(NamedTuple):
    """A while loop that trains inside.

    Attributes:
        graph: the TrainingGraph of one iteration.
        plan: the changes in it.
        pivot: a node of its body that starts once the previous iteration has trained.
    """

    graph: TrainingGraph
    plan: ScalePlan
    pivot: str


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
    losses = find_losses(graph, config)
    if leave or (config.loss_scale == "none" and not config.clip_norm):
        unscaled = [
            (step.body, loss)
            for step in steps_inside(graph, config, recorded)
            for loss in step.losses
        ]
        returned = _plan_returned(graph, [], config, allow, recorded)
        plan = ScalePlan(
            [],
            losses,
            None,
            [],
            {},
            _unnamed(graph),
            graph.forward,
            graph.joined,
            [],
            recorded=_recorded(graph),
        )
        return plan._replace(unscaled_inside=unscaled, returned=returned)
    warnings = [*_assumed(graph), *_unscaled_updates(graph, losses, config)]
    steps = list(steps_inside(graph, config, recorded))
    returned = _plan_returned(graph, steps, config, allow, recorded)
    returning = {each.body.name for each in returned}
    loops = list(_plan_loops(graph, losses, config, allow, returning))
    scopes = {scope.scope for loop in loops for loss in loop.plan.losses for scope in loss.scopes}
    left = [loss for loss in losses if not any(scope.scope in scopes for scope in loss.scopes)]
    plan = _planned(graph, left, config, allow, warnings, returning)
    float32 = {
        **plan.float32,
        **{name: reason for loop in loops for name, reason in loop.plan.float32.items()},
    }
    inside, unscaled = _plan_functions(graph, steps, config, allow, warnings, returning)
    skips = _without(plan.skips, loops)
    behind = (
        _behind_calls(graph, inside, skips, config, allow, warnings)
        if config.loss_scale == "dynamic" and inside
        else {}
    )
    return plan._replace(
        skips=skips,
        float32=float32,
        inside=inside,
        unscaled_inside=unscaled,
        loops=loops,
        returned=returned,
        behind=behind,
        warnings=warnings,
    )


def _planned(
    graph: TrainingGraph,
    losses: Sequence[Loss],
    config: Config,
    allow: AbstractSet[str],
    warnings: List[Dict[str, str]],
    returning: AbstractSet[str] = frozenset(),
) -> ScalePlan:
    """The plan for the main graph, or for a function's body.

    `returning` are gradient-taking functions that can get the scale.
    """
    served = [
        loss
        for loss in losses
        if not _refused(graph, loss, warnings)
        and not _left_in_calls(graph, config, loss, returning, warnings)
    ]
    skips = None
    if config.loss_scale == "dynamic" and served:
        skips = plan_skips(graph, served, activations(graph, allow), config.count_skipped_steps)
    kept = [
        port
        for loss in served
        for scope in loss.scopes
        for port in kept_ports(graph, config, loss, scope)
    ]
    float32 = {
        name: reason
        for loss in served
        for scope in loss.scopes
        for name, reason in scope.degrees.float32.items()
    }
    float32.update((port.node, _KEPT) for port in kept)
    float32.update(
        (seed.node, _SEED)
        for loss in served
        for scope in loss.scopes
        for seed in scope.seeds
        if seed.node in scope.nodes
    )
    float32.update(
        (name, LOSS)
        for loss in served
        for scope in loss.scopes
        for name in scope.losses
        if _is_number(graph, scope)
    )
    unscaled = [loss for loss in losses if loss not in served]
    return ScalePlan(
        served,
        unscaled,
        skips,
        kept,
        float32,
        _unnamed(graph),
        graph.forward,
        graph.joined,
        warnings,
        recorded=_recorded(graph),
    )


def _is_number(graph: TrainingGraph, scope: GradientScope) -> bool:
    """Whether gradients are taken of a number, not of activations.

    Those of activations have the user's own seeds, such as 1 minus the minimum of random numbers.
    """
    readers = (
        consumer.node for seed in scope.seeds for consumer in graph.view.consumers(seed.node)
    )
    return all(is_one(graph.view, seed.node) for seed in scope.seeds) and not any(
        graph.view.nodes[name].op in _SUMS for name in readers
    )


def _unnamed(graph: TrainingGraph) -> Dict[str, AbstractSet[str]]:
    return {scope: graph.code[scope] for scope in [*graph.discovered, *graph.recorded]}


def _recorded(graph: TrainingGraph) -> List[RecordedCall]:
    return list(graph.recorded.values())


def _refused(graph: TrainingGraph, loss: Loss, warnings: List[Dict[str, str]]) -> bool:
    """Whether a loss trains in a while loop, where no step can be skipped."""
    inside = (
        next((name for name in _nodes(loss) if graph.looped(name)), None)
        if any(map(graph.looped, loss.direct))
        else None
    )
    if inside is not None:
        text = (
            "it trains inside a while loop that does not order its updates: gradients are not"
            " scaled"
        )
        warnings.append(warning("GMP110", inside, text))
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


def _plan_returned(
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
    found = []
    for body in opened(
        [f for f in graph_def.library.function if f.signature.name in names],
        graph.meta_graph,
        graph.view,
        graph.op_defs,
    ):
        calls = valid(recorded, body.meta_graph.graph_def.node, in_function=True)
        inside = TrainingGraph(body.meta_graph, config, graph.op_defs, calls, body.results)
        plan = _planned(
            inside,
            find_losses(inside, config),
            dataclasses.replace(config, loss_scale=1.0),
            allow,
            [],
        )
        if len(plan.losses) == 1 and not plan.unscaled:
            found.append(Inside(body, inside, plan))
    return found if len(found) == len(names) else []


def applying(steps: Sequence[Union[StepInside, Inside]]) -> AbstractSet[str]:
    """The functions among those that train inside whose gradients others take."""
    return {step.body.name for step in steps if step.graph.returning}


def _nodes(loss: Loss) -> List[str]:
    """The nodes of a loss's seeds, of its gradients that leave for updates, and of its writes."""
    return (
        [name for scope in loss.scopes for name in _starts(scope)]
        + [port.node for port in loss.gradients]
        + list(loss.direct)
    )


def _starts(scope: GradientScope) -> List[str]:
    return [scope.call] if scope.call else [port.node for port in scope.seeds]


def _plan_loops(
    graph: TrainingGraph,
    losses: Sequence[Loss],
    config: Config,
    allow: AbstractSet[str],
    returning: AbstractSet[str],
) -> Iterator[InLoop]:
    """Decide on the while loops that train inside and order their updates.

    `returning` is as for `_planned`.
    """
    looped = [
        name
        for loss in losses
        for scope in loss.scopes
        for name in _starts(scope)
        if graph.looped(name)
    ]
    if not looped:
        return
    inside = frames(graph.view)

    def around(name: str) -> Optional[Path]:
        """The frames that contain the outputs of a node."""
        frame = inside.get(name)
        return frame[:-1] if frame and graph.view.nodes[name].op in EXITS else frame

    for path in dict.fromkeys(inside[name] for name in looped):
        loop = iteration(graph.meta_graph, inside, path)
        once = TrainingGraph(loop.meta_graph, config, graph.op_defs)
        found = [
            loss
            for loss in find_losses(once, config)
            if all(around(name) == path for name in _nodes(loss))
        ]
        writes = {name for loss in found for name in loss.direct}
        start = pivot(once.view, loop, writes)
        if found and start is not None and not writes & conditional(once.view):
            plan = _planned(once, found, config, allow, [], returning)
            yield InLoop(
                once, plan._replace(skips=plan.skips and _within(plan.skips, inside, path)), start
            )


def _without(skips: Optional[SkipPlan], loops: Sequence[InLoop]) -> Optional[SkipPlan]:
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


def steps_inside(
    graph: TrainingGraph, config: Config, recorded: Sequence[RecordedCall] = ()
) -> Iterator[StepInside]:
    """The functions that train inside.

    Not those in gradient code, whose inputs are scaled already.
    """
    writing = _writing(graph)
    called = (
        called_functions(graph.meta_graph.graph_def)
        if writing and not config.names_training
        else ()
    )
    for body in opened(
        [function for name, function in writing.items() if name in called],
        graph.meta_graph,
        graph.view,
        graph.op_defs,
    ):
        if not body.calls & graph.gradients:
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


def _plan_functions(
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
        plan = _planned(step.graph, step.losses, config, allow, [], returning)
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


def _behind_calls(
    graph: TrainingGraph,
    inside: Sequence[Inside],
    skips: Optional[SkipPlan],
    config: Config,
    allow: AbstractSet[str],
    warnings: List[Dict[str, str]],
) -> Dict[str, AbstractSet[int]]:
    """Writes of the main graph that run with calls of training functions.

    The rules are those for writes that run with an update (`skip_plan.py`). Not with a loop of
    calls, some of whose steps may train. If a function is called from several places, or in a
    branch, it isn't known outside which call was skipped: that is reported.
    """
    hidden = conditional(graph.view)
    calls = [
        tuple(sorted(name for name in each.body.once if not graph.looped(name))) for each in inside
    ]
    told = {
        n
        for n, names in enumerate(calls)
        if len(inside[n].body.calls) == len(names) == 1 and not hidden.intersection(names)
    }
    nothing = Loss(
        scopes=(),
        gradients=(),
        checked=(),
        reduced=False,
        added_up=False,
        arrivals=(),
        fetched=False,
        updates=(),
        direct=(),
    )
    steps = [
        nothing._replace(
            checked=tuple(Port(name, 0) for name in names), updates=names, direct=names
        )
        for names in calls
    ]
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
    return {name: numbers for name, numbers in behind.items() if numbers <= told}


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
    left = [
        n
        for n in graph.state.writes
        if n not in served and graph.view.nodes[n].op.startswith(UPDATE_PREFIXES)
    ]
    if left and not config.names_training:
        text = (
            "no gradient code was found for it (%d such updates): its gradient is neither scaled"
            " nor checked; --gradient_scope names that"
        )
        yield warning("GMP110", left[0], text % len(left))
