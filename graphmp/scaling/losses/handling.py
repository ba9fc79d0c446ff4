"""The model's own handling of gradients that aren't finite.

For example `tf.cond(all_finite, apply_gradients, count_bad_steps)`.
"""

from __future__ import annotations

from graphmp.graph.structure.branches import Conditions
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import FINITE_TESTS
from graphmp.scaling.losses.gradient_flow import value_readers
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph


class Handling:
    """The writes that handle bad gradients of one loss, or run where its updates don't."""

    def __init__(self, graph: TrainingGraph, loss: Loss):
        self._graph = graph
        sides = [graph.conditions.get(name, frozenset()) for name in loss.direct]
        self._updates: Conditions = frozenset.intersection(*sides) if sides else frozenset()
        ports = loss.arrivals or (*loss.gradients, *loss.checked)
        self._read = graph.view.followed(
            [c.node for port in ports for c in graph.view.consumers(port.node)],
            lambda name: name not in graph.gradients,
        )
        tests = [name for name in self._read if graph.view.nodes[name].op in FINITE_TESTS]
        self._chosen = graph.view.descendants(tests, control=False)
        self._values = reached(tests, lambda name: [c.node for c in value_readers(graph, name)])

    def tells(self, name: str) -> bool:
        """Whether a write happens, or takes a value, by whether the gradients are finite.

        Not where the updates run too. By their size counts on the other side of the updates.
        """
        graph = self._graph
        sides = graph.conditions.get(name, frozenset()) - self._updates
        return any(
            predicate.node in self._chosen
            or (predicate.node in self._read and (predicate, 1 - side) in self._updates)
            for predicate, side in sides
        ) or any(
            graph.view.inputs(name)[slot].node in self._values
            for slot in graph.values_written(name)
        )

    def is_apart(self, name: str) -> bool:
        """Whether a write runs on the other side of a conditional than the updates."""
        sides = self._graph.conditions.get(name, frozenset())
        return any((predicate, 1 - side) in self._updates for predicate, side in sides)
