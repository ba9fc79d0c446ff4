"""The training step of a graph file: its targets, and the subgraph that they need."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.feeds.sources import is_source, needed
from graphmp.graph.structure.view import GraphView
from graphmp.naming import SCOPE
from graphmp.policy.op_sets import ENTERS
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.op_defs import OpDefs
from hlo.conditionals import SWITCHES

_REFUSED = "node %s: %s, and XLA lowers no %s"


class Step(NamedTuple):
    """The nodes run by a step.

    Attributes:
        updates: the writes that train.
        losses: the differentiated values.
    """

    updates: List[str]
    losses: List[str]

    @property
    def targets(self) -> List[str]:
        """All nodes that are run."""
        return self.updates + self.losses


def find_step(meta_graph: tf.MetaGraphDef, train_op: Sequence[str]) -> Step:
    """The step of all losses of a graph, or of those that `train_op` trains.

    Raises:
        GraphmpError: GMP023 if the graph doesn't train, GMP002 for an unknown train op.
    """
    config = Config.make(loss_scale="none", train_op=train_op)
    losses = find_losses(TrainingGraph(meta_graph, config, OpDefs(meta_graph)), config)
    if not losses:
        raise GraphmpError(
            "GMP023", "no training step was found in the graph; name it with --train_op=OP"
        )
    updates = {
        name: None for loss in losses for name in loss.updates
    }  # towers and GANs may share some
    return Step(
        list(updates),
        sorted({name for loss in losses for scope in loss.scopes for name in scope.losses}),
    )


def step_graph(meta_graph: tf.MetaGraphDef, step: Step) -> tf.GraphDef:
    """The nodes that a step needs, without devices and attributes that don't affect values.

    The nodes that supply its data have no inputs.

    Raises:
        GraphmpError: GMP020 for while loops of TensorFlow 1 and for skipped steps, which XLA
            doesn't lower.
    """
    view = GraphView(meta_graph.graph_def)
    run = needed(view, step.targets)
    _check_control_flow(view, run)
    sources = {name for name in run if is_source(view.nodes[name])}
    result = tf.GraphDef(
        versions=meta_graph.graph_def.versions, library=meta_graph.graph_def.library
    )
    for name in (name for name in view.nodes if name in run):
        node = result.node.add()
        node.CopyFrom(view.nodes[name])
        node.device = ""
        node.input[:] = [
            text
            for text in node.input
            if name not in sources and not (text.startswith("^") and text[1:] in sources)
        ]
        for attribute in [key for key in node.attr if key.startswith("_")]:
            del node.attr[attribute]
    return result


def _check_control_flow(view: GraphView, run: Set[str]) -> None:
    for name in (name for name in view.nodes if name in run):
        node = view.nodes[name]
        if node.op in ENTERS:
            frame = node.attr["frame_name"].s.decode("utf-8", "replace")
            raise GraphmpError(
                "GMP020",
                _REFUSED
                % (
                    name,
                    "the step goes through the while loop %s" % frame,
                    "while loop of TensorFlow 1",
                ),
            )
        if node.op in SWITCHES and name.startswith(SCOPE + "/"):
            advice = (
                "; export the original with --as=converted, or convert it with --loss_scale=128"
            )
            raise GraphmpError(
                "GMP020",
                _REFUSED % (name, "a step that overflows is skipped by a %s" % node.op, node.op)
                + advice,
            )
