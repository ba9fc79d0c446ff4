"""Permanent memory: variables by purpose, and constants."""

from __future__ import annotations

from typing import AbstractSet, NamedTuple, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.state.state import State, variable_behind
from graphmp.graph.state.variables import Variable, variables
from graphmp.graph.structure.view import GraphView, Port
from graphmp.inspect.sizes import Sizes, array_bytes
from graphmp.inspect.training_step import Training
from graphmp.policy.dtypes import RESOURCE
from graphmp.policy.op_sets import UPDATE_PREFIXES
from graphmp.rewrite.units import TypedGraph


class Held(NamedTuple):
    """Bytes of trained variables, the optimizer's slots, other variables, and constants and feeds.

    Constants and feeds are those that a step reads.
    """

    weights: int
    slots: int
    other_variables: int
    constants: int
    feeds: int


def held(
    meta_graph: tf.MetaGraphDef,
    graph: TypedGraph,
    sizes: Sizes,
    training: Training,
    buffers: AbstractSet[Port],
    fed: AbstractSet[Port],
) -> Held:
    """Sum up permanent memory.

    Args:
        meta_graph: the graph.
        graph: the same, with its types.
        sizes: its sizes.
        training: its step.
        buffers: all that the step uses.
        fed: those that are fed.
    """
    weights = _weights(meta_graph, graph.view, training)
    slots = _slots(graph, training)
    sums = {"weights": 0, "slots": 0, "other": 0}
    for variable in variables(meta_graph.graph_def):
        kind = (
            "weights"
            if variable.name in weights
            else "slots"
            if variable.name in slots or _is_below(variable.name, weights)
            else "other"
        )
        sums[kind] += _variable_bytes(variable, sizes.unknown)
    constants = sum(
        sizes.tensor_bytes(buffer)
        for buffer in buffers
        if graph.view.nodes[buffer.node].op == "Const"
    )
    return Held(
        sums["weights"], sums["slots"], sums["other"], constants, sum(map(sizes.tensor_bytes, fed))
    )


def _weights(meta_graph: tf.MetaGraphDef, view: GraphView, training: Training) -> AbstractSet[str]:
    """The trainable variables; if a graph lists none, those that update kernels write."""
    collected = State(meta_graph, view).collected(tf.GraphKeys.TRAINABLE_VARIABLES)
    return collected or {
        name
        for name in (
            variable_behind(view, view.inputs(update)[0].node)
            for update in _kernels(view, training)
        )
        if name
    }


def _slots(graph: TypedGraph, training: Training) -> Set[str]:
    """The slots that update kernels write besides the variable."""
    found = set()
    for update in _kernels(graph.view, training):
        signature = graph.signature(update)
        for port, kind in zip(
            graph.view.inputs(update)[1:], signature.inputs[1:] if signature else ()
        ):
            if kind.is_ref or kind.dtype == RESOURCE:
                found.add(variable_behind(graph.view, port.node))
    return {name for name in found if name is not None}


def _kernels(view: GraphView, training: Training) -> Set[str]:
    return {
        name
        for name in training.updates
        if name in view.nodes and view.nodes[name].op.startswith(UPDATE_PREFIXES)
    }


def _is_below(name: str, weights: AbstractSet[str]) -> bool:
    """Whether a variable's name is prefixed by a weight's name, like those of slots."""
    parts = name.split("/")
    return any("/".join(parts[:end]) in weights for end in range(1, len(parts)))


def _variable_bytes(variable: Variable, unknown: int) -> int:
    """Bytes of a variable; 0 if its rank is unknown."""
    if variable.shape is None:
        return 0
    return array_bytes(variable.dtype, [unknown if size < 0 else size for size in variable.shape])
