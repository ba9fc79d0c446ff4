"""The losses of a training graph: gradient code, seeds, gradients, and the updates they reach.

1. A scope of gradient code (`graph/structure/gradient_code.py`) starts from its seeds: ones, or the
   user's `grad_ys`.
2. Its gradients are the outputs that nodes outside read. Nodes between two parts of one scope
   belong to it.
3. Gradients are followed by data to the writes: through clips, sums and averages, through
   accumulators and queues, and through a variable that isn't trained itself (a user's sum over
   several steps). Not through other gradient code: its input to another loss (a gradient penalty,
   an inner step of MAML) isn't training.
4. A scope trains if such a write changes a trained variable. Several scopes may be one loss
   (`joint.py`).
5. Gradients that nothing reads are fetched, and may be fed back through placeholders: such updates
   belong to the scope that differentiates by the variables they write, else to those that
   differentiate by variables of the same shapes.
"""

from __future__ import annotations

from typing import AbstractSet, List, Optional

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import parse_input
from graphmp.scaling.losses.fed_gradients import fed_losses
from graphmp.scaling.losses.gradient_flow import GradientFlow, gradient_flow
from graphmp.scaling.losses.joint import joint
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.scopes import call_scope, gradient_scope
from graphmp.scaling.losses.training_graph import TrainingGraph


def find_losses(graph: TrainingGraph, config: Config) -> List[Loss]:
    """All losses of a graph that train something, in the graph's order.

    Raises:
        GraphmpError: GMP002 for a --loss, --train_op or --gradient_scope that doesn't exist.
    """
    chosen = behind_train_op(graph, config)
    scopes = [
        gradient_scope(graph, scope, nodes)
        for scope, nodes in graph.code.items()
        if not config.gradient_scope or scope in config.gradient_scope
    ]
    _check_flags(graph, config, scopes)
    scopes += [call_scope(graph, call) for call in graph.returning]
    scopes = [
        s
        for s in scopes
        if s.call
        or (s.seeds and (not config.loss or any(_is_loss(graph, name, s) for name in config.loss)))
    ]
    flows = [gradient_flow(graph, scope, chosen) for scope in scopes]
    groups = joint(graph, scopes, flows)
    found = [_joined(scopes, flows, members) for members in groups]
    idle = [
        scope
        for number, scope in enumerate(scopes)
        if not any(number in members for members in groups)
    ]
    found += fed_losses(graph, idle, chosen, {update for loss in found for update in loss.updates})
    order = {name: place for place, name in enumerate(graph.view.nodes)}
    return sorted(
        found,
        key=lambda loss: min(
            order[name]
            for scope in loss.scopes
            for name in [scope.call] * bool(scope.call) or [s.node for s in scope.seeds]
        ),
    )


def behind_train_op(graph: TrainingGraph, config: Config) -> Optional[AbstractSet[str]]:
    """The nodes behind --train_op; None if all writes count.

    Raises:
        GraphmpError: GMP002 for an op that doesn't exist.
    """
    names = [parse_input(name.lstrip("^")).node for name in config.train_op]
    for name in names:
        if name not in graph.view.nodes:
            raise GraphmpError(
                "GMP002",
                "--train_op=%s: the graph has no such node; accepted are names of ops" % name,
            )
    return graph.view.ancestors(names) if names else None


def _is_loss(graph: TrainingGraph, name: str, scope: GradientScope) -> bool:
    """Whether a scope takes the gradient of a tensor, or of one that it copies."""
    node = parse_input(name).node
    while (
        node in graph.view.nodes
        and node not in scope.losses
        and graph.view.nodes[node].op == "Identity"
    ):
        node = graph.view.inputs(node)[0].node
    return node in scope.losses


def _check_flags(graph: TrainingGraph, config: Config, scopes: List[GradientScope]) -> None:
    for given in config.gradient_scope:
        scope = next((s for s in scopes if s.scope == given), None)
        if scope is None or not scope.nodes:
            raise GraphmpError(
                "GMP002",
                "--gradient_scope=%s: no node is below it; accepted are name scopes of gradient"
                " code" % given,
            )
        if not scope.seeds:
            raise GraphmpError(
                "GMP002",
                "--gradient_scope=%s: nothing in it starts gradients; accepted are the scopes of"
                " tf.gradients" % given,
            )
    known = sorted({loss for scope in scopes for loss in scope.losses})
    for name in config.loss:
        if not any(_is_loss(graph, name, scope) for scope in scopes):
            found = ", ".join(known[:5]) or "none"
            raise GraphmpError(
                "GMP002",
                "--loss=%s: no gradient code starts there; accepted are what it starts from"
                " here: %s" % (name, found),
            )


def _joined(scopes: List[GradientScope], flows: List[GradientFlow], members: List[int]) -> Loss:
    own = [flows[number] for number in members]
    direct = {name for flow in own for name in flow.direct}
    updates = direct | {name for flow in own for name in flow.later}
    held = direct.difference(*(flow.trained for flow in own))
    return Loss(
        scopes=tuple(scopes[number] for number in members),
        gradients=tuple(port for flow in own for port in flow.gradients),
        checked=tuple(dict.fromkeys(port for flow in own for port in flow.checked)),
        reduced=any(flow.reduced for flow in own),
        added_up=sum(len(flow.direct) for flow in own) > len(direct),
        arrivals=tuple(dict.fromkeys(port for flow in own for port in flow.taken)),
        fetched=False,
        updates=tuple(sorted(updates)),
        direct=tuple(sorted(direct)),
        emerging=tuple(dict.fromkeys(port for flow in own for port in flow.emerging)),
        held=tuple(sorted(held)),
    )
