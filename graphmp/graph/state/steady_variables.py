"""Loop variables that keep their initial shape in all iterations, though its size is unknown."""

from __future__ import annotations

from typing import AbstractSet, Dict, Tuple

from graphmp.graph.shapes.symbolic_shapes import SymbolicShapes
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import ENTERS, NEXT_ITERATIONS

_MOST_ROUNDS = 8


def steady_variables(view: GraphView) -> AbstractSet[str]:
    """The Merges of these variables, by induction.

    All are assumed to keep their shape; those whose next value then has another shape are dropped,
    until the rest is consistent.
    """
    variables = _variables(view)
    steady = set(variables)
    for _ in range(_MOST_ROUNDS):
        shapes = SymbolicShapes(view, frozenset(steady))
        found = {name: [shapes.of(port) for port in variables[name]] for name in steady}
        broken = {
            name
            for name, (entered, following) in found.items()
            if entered is None or following != entered
        }
        if not broken:
            return steady
        steady -= broken
    return frozenset()


def _variables(view: GraphView) -> Dict[str, Tuple[Port, Port]]:
    """The initial value of a loop variable and its value in the next iteration, by their Merge."""
    found = {}
    for name in [
        name
        for name, node in view.nodes.items()
        if node.op == "Merge" and len(view.inputs(name)) == 2
    ]:
        entered, following = sorted(
            view.inputs(name), key=lambda port: view.nodes[port.node].op in NEXT_ITERATIONS
        )
        if (
            view.nodes[entered.node].op in ENTERS
            and view.nodes[following.node].op in NEXT_ITERATIONS
        ):
            found[name] = entered, view.inputs(following.node)[0]
    return found
