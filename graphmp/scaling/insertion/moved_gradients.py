"""Scaled computations of fetched gradients: a copy computes what a name gives unscaled."""

from __future__ import annotations

from typing import List

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.reason import SCALE, UNSCALE, Reason
from graphmp.scaling.losses.model import GradientScope
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.fetched_gradients import is_last_copy

_COMPUTED = "_graphmp_scaled"
_COMPUTES = "computes the scaled gradient that %s gives unscaled, under its name"


def computed_elsewhere(
    graph: TrainingGraph, editor: Editor, scope: GradientScope, name: str
) -> Port:
    """Make a node of gradient code an Identity, and return the output that computes its old value.

    The Identity's input is to be connected. An Identity that nothing in its scope reads isn't
    changed.
    """
    node = graph.view.nodes[name]
    if is_last_copy(graph, scope, name):
        return graph.view.inputs(name)[0]
    inside = [consumer for consumer in graph.view.consumers(name) if consumer.node in scope.nodes]
    copy = tf.NodeDef()
    copy.CopyFrom(node)
    copy.name = editor.unique(name + _COMPUTED)
    editor.put(copy, Reason(SCALE, _COMPUTES % name, name))
    for consumer in inside:
        editor.connect(consumer.node, consumer.slot, Port(copy.name, 0))
    editor.make_identity(
        name, Port(copy.name, 0), graph.dtype(Port(name, 0)), editor.controls(name)
    )
    editor.changed[name] = Reason(
        UNSCALE,
        "under its name stands the unscaled gradient, computed in %s" % copy.name,
        copy.name,
    )
    return Port(copy.name, 0)


def under_its_name(view: GraphView, name: str) -> List[str]:
    """A node of gradient code, and the one that computes it if it returns the unscaled value."""
    return [name, name + _COMPUTED] if name + _COMPUTED in view.nodes else [name]
