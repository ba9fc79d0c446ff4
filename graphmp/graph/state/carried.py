"""Values that a write takes over, element by element, from what a variable holds.

1. The new value of a variable is made of its old one: weights to which a network's result is added,
   averages, states of an optimizer.
2. The new value of any variable is made of variables, constants and fed numbers alone: copies of
   weights, rates.

Such values end at a matmul or convolution, at a write, and at the exit of a loop, which may have no
iterations. Of gradient code they pass only copies and sums.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Iterable, Set

from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import EXITS, PLACEHOLDERS, READS, VARIABLE_OPS
from graphmp.policy.traits import BIAS_ADDS, KEEPS_VALUES

ROUNDS = BIAS_ADDS | {
    *("Add", "AddN", "AddV2", "Div", "DivNoNan", "Mul", "Pow", "RealDiv", "Reciprocal", "Rsqrt"),
    *("Sqrt", "Square", "SquaredDifference", "Sub", "TensorScatterAdd", "TensorScatterSub"),
}
_CHOOSES = {"Abs", "Cast", "ClipByValue", "Maximum", "Minimum", "Neg", "Relu", "Sign"}
_BY_ELEMENT = (KEEPS_VALUES | READS | ROUNDS | _CHOOSES | {"TensorScatterUpdate"}) - EXITS


class Carried:
    """Follows the values of variables to writes, in one body."""

    def __init__(
        self,
        view: GraphView,
        state: State,
        gradients: AbstractSet[str],
        models: AbstractSet[str],
        taken: Callable[[str], Iterable[str]],
    ):
        """Nothing is followed yet.

        Args:
            view: the body.
            state: its variables and writes.
            gradients: its gradient code.
            models: nodes at which values end, besides writes: matmuls and convolutions.
            taken: the nodes whose values a write takes, also through a gate.
        """
        self._view, self._state, self._gradients, self._taken = view, state, gradients, taken
        self.ends = models | frozenset(state.writes)

    def nodes(self) -> Set[str]:
        """The nodes on the way from a variable's value to a write that takes it."""
        nodes = self._view.nodes
        sources = {name for name in nodes if self._is_source(name)}
        apart = {name for name in nodes if not self.by_element(name)} - sources
        mixed = self._view.descendants(apart, control=False)
        found = self.between(sources, self._state.writes, lambda name: name not in mixed, self.ends)
        for variable, writes in self._by_variable().items():
            found |= self.between({variable}, writes, self.by_element, self.ends)
        return found

    def _is_source(self, name: str) -> bool:
        """Whether a node is a variable, a constant, or a number that is fed."""
        node = self._view.nodes[name]
        is_fed = node.op in PLACEHOLDERS and recorded_dimensions(node, 0, -1) == []
        return is_fed or node.op in VARIABLE_OPS or node.op == "Const"

    def _by_variable(self) -> Dict[str, Set[str]]:
        """The writes of each variable."""
        written: Dict[str, Set[str]] = {}
        for name in self._state.writes:
            for variable in self._state.written(name):
                written.setdefault(variable, set()).add(name)
        return written

    def by_element(self, name: str) -> bool:
        """Whether each element of a result is made of few elements of what its node reads."""
        return self._view.nodes[name].op in _BY_ELEMENT and self.is_outside(name)

    def is_outside(self, name: str) -> bool:
        """Whether a node is no gradient code, or only copies or adds up its results."""
        return name not in self._gradients or self._view.nodes[name].op in ("AddN", "Identity")

    def between(
        self,
        starts: AbstractSet[str],
        writes: Iterable[str],
        through: Callable[[str], bool],
        stops: AbstractSet[str],
    ) -> Set[str]:
        """The nodes on data paths from some nodes to writes, where `through` holds.

        Not through `stops`.
        """
        ahead = self._view.followed(
            starts, lambda name: name in starts or (name not in stops and through(name))
        )
        taken = (node for name in writes for node in self._taken(name))
        return self._view.traced(taken, ahead.__contains__)
