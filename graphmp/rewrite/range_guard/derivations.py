"""The ops that a tensor is made of: walks back through the ops of a graph body."""

from __future__ import annotations

from typing import Callable, Container, Dict, Iterable, List, Set

from graphmp.graph.structure.view import Port
from graphmp.rewrite.units import TypedGraph


def read(graph: TypedGraph, name: str, unit: int) -> List[Port]:
    """The tensors that a node reads in the dtype of a unit."""
    ports = enumerate(graph.view.inputs(name))
    return [port for slot, port in ports if graph.reading(name, slot) == unit]


def behind(
    start: Port, onward: Callable[[Port], Iterable[Port]], ends: Container[Port] = ()
) -> Dict[Port, List[Port]]:
    """A tensor and those that it is made of, as far as `ends`.

    Args:
        start: the tensor.
        onward: the tensors that the op behind a tensor reads; none where the walk ends.
        ends: tensors behind which the walk doesn't go.

    Returns:
        For each tensor those that are made of it, one op nearer to `start`.
    """
    found: Dict[Port, List[Port]] = {start: []}
    waiting = [start]
    while waiting:
        port = waiting.pop()
        for each in onward(port) if port not in ends else ():
            if each not in found:
                found[each] = []
                waiting.append(each)
            found[each].append(port)
    return found


def made_of(sources: Iterable[Port], reached: Dict[Port, List[Port]]) -> Set[Port]:
    """The tensors of `reached` that are made of sources."""
    made: Set[Port] = set()
    waiting = [source for source in sources if source in reached]
    while waiting:
        following = set(reached[waiting.pop()]) - made
        made |= following
        waiting += following
    return made
