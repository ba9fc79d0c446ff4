"""Fetched values of gradient code: they keep name and value, though their computation is scaled."""

from __future__ import annotations

from typing import Iterator, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.view import Port, parse_input
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.training_graph import TrainingGraph


def kept_ports(
    graph: TrainingGraph, config: Config, loss: Loss, scope: GradientScope
) -> Iterator[Port]:
    """First outputs of scaled nodes that are fetched.

    By a flag, a signature or a collection, or because nothing in the graph reads them; and copies
    at the end of gradient code (TensorFlow's `tuple/control_dependency`), which cost nothing.
    """
    if config.loss_scale == "none":
        return
    named = set(_named(graph.meta_graph, config))
    named.update(port.node for port in scope.leaving if is_last_copy(graph, scope, port.node))
    if loss.fetched:
        named.update(port.node for port in loss.gradients)
    wanted = [
        name
        for name in graph.view.in_graph_order(named)
        if scope.degrees.of.get(name)
        and name not in scope.degrees.rescale
        and not copies_unscaled(graph, scope, name)
    ]
    for name in wanted:
        if len(graph.outputs(name)) == 1 and graph.is_float(Port(name, 0)):
            yield Port(name, 0)


def is_last_copy(graph: TrainingGraph, scope: GradientScope, name: str) -> bool:
    """Whether a node of gradient code copies another one only for consumers outside."""
    source = graph.view.inputs(name)[:1]
    inside = any(consumer.node in scope.nodes for consumer in graph.view.consumers(name))
    return (
        graph.view.nodes[name].op == "Identity"
        and not inside
        and source[0].node in scope.degrees.of
    )


def copies_unscaled(graph: TrainingGraph, scope: GradientScope, name: str) -> bool:
    """Whether a node is a last copy of a value that is computed unscaled, and keeps it."""
    return (
        is_last_copy(graph, scope, name)
        and graph.view.inputs(name)[0].node in scope.degrees.rescale
    )


def _named(meta_graph: tf.MetaGraphDef, config: Config) -> Iterator[str]:
    names: Set[str] = set(config.fetch)
    for signature in meta_graph.signature_def.values():
        names.update(info.name for info in signature.outputs.values())
    for collection in meta_graph.collection_def.values():
        names.update(collection.node_list.value)
    yield from (parse_input(name.lstrip("^")).node for name in names if name)
