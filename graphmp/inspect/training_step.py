"""A training step: its nodes, and those of the backward pass."""

from __future__ import annotations

from typing import FrozenSet, Iterator, NamedTuple, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import RESTORES, SAVES
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.functions import steps_inside
from graphmp.tf_hooks.op_defs import OpDefs

_BESIDE_STEPS = SAVES | RESTORES | {"NoOp"}


class Training(NamedTuple):
    """The nodes that define a step, by names that a conversion keeps.

    Attributes:
        updates: nodes that write the trained variables, accumulate their gradients, or call a
            training function; without training, all final results.
        code: gradient code.
        seeds: the initial gradients.
        trains: whether there is training, in functions too.
    """

    updates: FrozenSet[str]
    code: FrozenSet[str]
    seeds: FrozenSet[str]
    trains: bool


def find_training(meta_graph: tf.MetaGraphDef, config: Config) -> Training:
    """Finds the training step of a graph."""
    graph = TrainingGraph(meta_graph, config, OpDefs(meta_graph))
    losses = find_losses(graph, config)
    scopes = [scope for loss in losses for scope in loss.scopes]
    calls = frozenset(call for step in steps_inside(graph, config) for call in step.body.calls)
    if not losses and not calls:
        return Training(frozenset(_results(graph)), frozenset(), frozenset(), False)
    return Training(
        frozenset(update for loss in losses for update in loss.updates)
        | frozenset(_pushes(graph))
        | calls,
        frozenset(name for scope in scopes for name in scope.nodes),
        frozenset(seed.node for scope in scopes for seed in scope.seeds),
        True,
    )


def _pushes(graph: TrainingGraph) -> Iterator[str]:
    """Nodes that pass gradients to an update's accumulators, without an edge between them."""
    return (
        name
        for name, node in graph.view.nodes.items()
        if node.op.endswith("AccumulatorApplyGradient")
    )


def _results(graph: TrainingGraph) -> Set[str]:
    """Nodes with unread outputs, except those that write state or files."""
    view = graph.view
    return {
        n
        for n, node in view.nodes.items()
        if node.op not in _BESIDE_STEPS and not graph.state.is_write(n) and not view.consumers(n)
    }


def step_nodes(view: GraphView, training: Training) -> Set[str]:
    """All nodes of the step."""
    return view.ancestors(training.updates & view.nodes.keys())


def late_nodes(view: GraphView, training: Training) -> Set[str]:
    """All descendants of initial gradients; a loop with one belongs to them as a whole."""
    late = view.descendants(training.seeds & view.nodes.keys())
    inside = frames(view)
    loops = {inside[name] for name in late if inside.get(name)}
    return late | {name for name, loop in inside.items() if loop in loops}


def is_gradient_code(node: tf.NodeDef, training: Training) -> bool:
    """Whether a late node is gradient code, including inserted casts, not a user of gradients."""
    return node.name in training.code or node.op == "Cast"
