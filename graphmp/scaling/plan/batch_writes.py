"""The writes of values from the batch: rule 4 of `skip_plan.py`."""

from __future__ import annotations

from typing import AbstractSet, Iterable, List

import tensorflow.compat.v1 as tf

from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.view import GraphView
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import SWITCHES, VARIABLE_OPS
from graphmp.scaling.losses.training_graph import TrainingGraph


class BatchWrites:
    """Tells which writes take values from the batch."""

    def __init__(self, graph: TrainingGraph, activations: AbstractSet[str]):
        """`activations`: descendants of matmuls or convolutions."""
        self._graph, self._activations = graph, activations
        self._globals = graph.state.collected(tf.GraphKeys.GLOBAL_VARIABLES)
        collections = graph.meta_graph.collection_def
        self._update_ops = (
            set(collections[tf.GraphKeys.UPDATE_OPS].node_list.value)
            if tf.GraphKeys.UPDATE_OPS in collections
            else set()
        )
        self._fed = reached(
            _sources(graph),
            lambda name: _made_of(graph.view, name),
            lambda name: name not in graph.state.initializers,
        )

    def takes(self, name: str, in_step: bool) -> bool:
        """Whether rule 4 applies to a write."""
        if not self.is_global(name):
            return False
        graph = self._graph
        nodes = [graph.view.inputs(name)[slot].node for slot in graph.floats_written(name)]
        if any(node in self._activations or node in graph.queued for node in nodes):
            return True
        return (in_step or self._is_update_op(name)) and self.takes_any(name, self._fed)

    def takes_any(self, name: str, nodes: AbstractSet[str]) -> bool:
        """Whether a write takes the value of one of some nodes."""
        return any(
            self._graph.view.inputs(name)[slot].node in nodes
            for slot in self._graph.values_written(name)
        )

    def is_global(self, name: str) -> bool:
        """Whether a write changes a global variable, or there is no list of them."""
        return self._globals is None or bool(self._graph.state.written(name) & self._globals)

    def made_of(self, writes: Iterable[str]) -> AbstractSet[str]:
        """The nodes of the forward pass that values written by some writes lead to."""
        graph = self._graph
        return graph.view.followed(
            {variable for name in writes for variable in graph.state.written(name)},
            lambda name: name not in graph.gradients and name not in graph.state.initializers,
        )

    def _is_update_op(self, name: str) -> bool:
        return name in self._update_ops or name + ":0" in self._update_ops


def _made_of(view: GraphView, name: str) -> List[str]:
    """The readers of a node whose values are made of its own: no switch that it turns."""
    return [
        reader.node
        for reader in view.consumers(name)
        if not (reader.slot and view.nodes[reader.node].op in SWITCHES)
    ]


def _sources(graph: TrainingGraph) -> List[str]:
    """Sources of values: inputs that are neither constants nor variables, and random numbers."""
    beside = VARIABLE_OPS | {"Const", "NoOp"}
    return [
        n
        for n, node in graph.view.nodes.items()
        if (not graph.view.inputs(n) and node.op not in beside) or kind(node.op) == "random"
    ]
