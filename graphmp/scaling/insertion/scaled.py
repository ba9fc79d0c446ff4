"""Scaling the losses of one graph: the main graph, the body of a function, or an iteration."""

from __future__ import annotations

from types import MappingProxyType
from typing import AbstractSet, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import Port
from graphmp.loss_scale.scales import state_for_functions
from graphmp.naming import in_body
from graphmp.policy.reason import Done
from graphmp.scaling.insertion.arithmetic import Arithmetic
from graphmp.scaling.insertion.as_built import as_built
from graphmp.scaling.insertion.checkpoints import ScaleState
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.gated_step import gate
from graphmp.scaling.insertion.inserted import Inserted, doubts, row_of, taken_inside
from graphmp.scaling.losses.inside import OpenBody
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.model import ScalePlan


def scale_losses(
    graph: TrainingGraph,
    editor: Editor,
    part: Fragment,
    config: Config,
    plan: ScalePlan,
    scopes: Iterator[str],
    result: Inserted,
    body: Optional[OpenBody] = None,
    handles: bool = False,
    flags: Mapping[str, Port] = MappingProxyType({}),
) -> List[Arithmetic]:
    """Scale the losses of the main graph, or of a function's body.

    With `handles`, the state is made elsewhere. `flags` are as in Arithmetic.
    """
    made = [
        Arithmetic(graph, editor, part, config, loss, next(scopes), plan.kept, handles, flags=flags)
        for loss in plan.losses
    ]
    name = body.name if body else ""
    warnings: List[Dict[str, str]] = []
    unscaled = {port: tensor for each in made for port, tensor in each.divisions.items()}
    for loss, each in zip(plan.losses, made):
        each.complete(unscaled)
        result.scales.append(
            {
                "scope": each.scale.scope,
                "kind": each.scale.kind,
                "initial": each.scale.initial,
                "handles": handles,
            }
        )
        if each.first_step is not None:
            result.first_steps.setdefault(name, []).append(each.first_step)
        if body is None and not handles:
            result.as_built.append(as_built(graph, loss, each))
        warnings.extend(doubts(loss, each, each.scale.scope))
    gated = gate(graph, editor, plan.skips, made, warnings)
    result.warnings.extend(dict(row, node=in_body(name, row["node"])) for row in warnings)
    for loss, arithmetic, names in zip(plan.losses, made, gated):
        looped = (handles and body is None) or taken_inside(graph, loss)
        result.losses.append(dict(row_of(loss, arithmetic, names, body), in_loop=looped))
    return made


def splice(
    graph: TrainingGraph,
    editor: Editor,
    part: Fragment,
    made: Sequence[Arithmetic],
    collections: Dict[str, bool],
    result: Inserted,
    body: str = "",
) -> None:
    """Add a fragment to a graph and list its nodes in the result."""
    part.splice(editor, graph.meta_graph, collections)
    for name, others in [item for each in made for item in each.waits.items()]:
        editor.wait_for(name, others)
    editor.finish()
    result.done.extend(
        Done(in_body(body, name), "inserted", reason)
        for name, reason in editor.added.items()
        if reason is not None
    )
    result.done.extend(
        Done(in_body(body, name), "changed", reason) for name, reason in editor.changed.items()
    )


def given_to_calls(made: Sequence[Arithmetic]) -> Dict[str, str]:
    """The inputs that calls of gradient-taking functions get from the scales, by call."""
    return {call: scale for each in made for call, scale in each.given.items()}


def states_outside(
    graph: TrainingGraph,
    plan: ScalePlan,
    made: Sequence[Arithmetic],
    outside: Fragment,
    config: Config,
    variables: Callable[[AbstractSet[str]], AbstractSet[str]],
) -> Iterator[ScaleState]:
    """Make the state of scales inside functions and loops.

    `variables` are the main graph's variables behind those trained inside.
    """
    for loss, each in zip(plan.losses, made):
        if each.scale.skips:
            with outside.building(), tf.device(each.scale.device):
                yield ScaleState(
                    state_for_functions(config, each.scale.scope), variables(trained(graph, loss))
                )


def trained(graph: TrainingGraph, loss: Loss) -> AbstractSet[str]:
    """The variables that a loss trains."""
    return {variable for name in loss.updates for variable in graph.state.written(name)}
