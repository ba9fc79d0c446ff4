"""Comparisons of a tensor with what clear ops select from it, such as `x == max(x)`.

Rounding has to reach both sides or neither: no element of a float32 `x` equals the maximum of its
half-precision copy. A model compares so for a one-hot of the largest, and TensorFlow in the
gradient of Max and Min, which then divides by the number of equal elements, zero.
"""

from __future__ import annotations

from typing import AbstractSet, Container, Dict, Iterable, Iterator, List, Set, Tuple

from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import COMPARISONS
from graphmp.policy.traits import FORGETS_VALUES
from graphmp.rewrite.units import TypedGraph


def selections(graph: TypedGraph, clear: AbstractSet[str]) -> Iterator[Tuple[int, int]]:
    """Pairs of units: a comparison, and a clear op between it and the source of both its sides."""
    for name, node in graph.view.nodes.items():
        if node.op not in COMPARISONS:
            continue
        for unit in graph.units_of(name):
            left, right = _read(graph, name, unit)
            behind_left = _behind(graph, clear, left)
            behind_right = _behind(graph, clear, right, behind_left)
            sources = behind_right.keys() & behind_left.keys()
            for reached in (_behind(graph, clear, left, sources), behind_right):
                for port in _made_of(sources, reached):
                    yield unit, graph.writer(port)


def _read(graph: TypedGraph, name: str, unit: int) -> List[Port]:
    """The tensors that a node reads in the dtype of a unit."""
    ports = enumerate(graph.view.inputs(name))
    return [port for slot, port in ports if graph.reading(name, slot) == unit]


def _behind(
    graph: TypedGraph, clear: AbstractSet[str], start: Port, ends: Container[Port] = ()
) -> Dict[Port, List[Port]]:
    """A tensor and those that clear ops make it of, as far as `ends`.

    Returns:
        For each tensor those that are made of it, one op nearer to `start`.
    """
    found: Dict[Port, List[Port]] = {start: []}
    waiting = [start]
    while waiting:
        port = waiting.pop()
        unit, op = graph.writer(port), graph.view.nodes[port.node].op
        if port in ends or unit < 0 or op not in clear or op in FORGETS_VALUES:
            continue
        for read in _read(graph, port.node, unit):
            if read not in found:
                found[read] = []
                waiting.append(read)
            found[read].append(port)
    return found


def _made_of(sources: Iterable[Port], reached: Dict[Port, List[Port]]) -> Set[Port]:
    """The tensors of `reached` that are made of sources."""
    made: Set[Port] = set()
    waiting = [source for source in sources if source in reached]
    while waiting:
        following = set(reached[waiting.pop()]) - made
        made |= following
        waiting += following
    return made
