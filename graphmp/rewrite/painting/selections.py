"""Comparisons of a tensor with what clear ops select from it, such as `x == max(x)`.

Rounding has to reach both sides or neither: no element of a float32 `x` equals the maximum of its
half-precision copy. A model compares so for a one-hot of the largest, and TensorFlow in the
gradient of Max and Min, which then divides by the number of equal elements, zero.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, List, Tuple

from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import COMPARISONS
from graphmp.policy.traits import FORGETS_VALUES
from graphmp.rewrite.range_guard.derivations import behind, made_of, read
from graphmp.rewrite.units import TypedGraph


def selections(graph: TypedGraph, clear: AbstractSet[str]) -> Iterator[Tuple[int, int]]:
    """Pairs of units: a comparison, and a clear op between it and the source of both its sides."""

    def onward(port: Port) -> List[Port]:
        unit, op = graph.writer(port), graph.view.nodes[port.node].op
        is_end = unit < 0 or op not in clear or op in FORGETS_VALUES
        return [] if is_end else read(graph, port.node, unit)

    for name, node in graph.view.nodes.items():
        if node.op not in COMPARISONS:
            continue
        for unit in graph.units_of(name):
            left, right = read(graph, name, unit)
            behind_left = behind(left, onward)
            behind_right = behind(right, onward, behind_left)
            sources = behind_right.keys() & behind_left.keys()
            for reached in (behind(left, onward, sources), behind_right):
                for port in made_of(sources, reached):
                    yield unit, graph.writer(port)
