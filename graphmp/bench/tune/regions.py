"""Regions of a conversion's half-precision part, and the search for those better in float32.

1. Nodes of the part are in an order: connected components one after another, those of a scope
   together, a node of the backward pass beside its forward node.
2. A region is a stretch of that order. It is halved between components where one ends near its
   middle, else by the nodes' times.
3. Each half of a region is timed in the other dtype than it has in the fastest conversion so far,
   and gets that dtype if a step is faster then. Halves are halved in turn, in either case, those
   that take longest first.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Sequence, Tuple

import numpy as np
import scipy.sparse as sparse
import tensorflow.compat.v1 as tf
from scipy.sparse import csgraph

from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import names_half

_MIDDLE = (0.25, 0.75)  # of a region's time: where it is halved between components
_BACKWARD = re.compile(r"(?:^|/)gradients(?:_\d+)?/|_grad(?=/|$)")
IsFaster = Callable[[FrozenSet[str], FrozenSet[str]], bool]


class HalfPart:
    """The half-precision part of a conversion.

    Attributes:
        names: its nodes, in order.
        ends: places after which a connected component ends.
    """

    def __init__(self, original: GraphView, converted: tf.MetaGraphDef):
        """Find it.

        Args:
            original: the float32 graph.
            converted: the same graph with parts in half precision.
        """
        before = original.nodes
        half = [
            node.name
            for node in converted.graph_def.node
            if node.name in before and names_half(node) and not names_half(before[node.name])
        ]
        labels = _components(original, half)
        first: Dict[int, str] = {}
        for name in sorted(half, key=_scope_of):
            first.setdefault(labels[name], name)
        places = {label: place for place, label in enumerate(first)}
        self.names = sorted(half, key=lambda name: (places[labels[name]], _scope_of(name)))
        after = zip(self.names, self.names[1:])
        self.ends = frozenset(
            place + 1 for place, (a, b) in enumerate(after) if labels[a] != labels[b]
        )


def narrowed(
    part: HalfPart,
    times: Mapping[str, float],
    is_faster: IsFaster,
    goes_on: Callable[[], bool],
) -> FrozenSet[str]:
    """The nodes of a part that a step is faster with in float32.

    Args:
        part: the half-precision part.
        times: nanoseconds of its nodes; those without are quick.
        is_faster: whether a step is faster with the first set of nodes in float32 than with the
            second.
        goes_on: whether there is time for another question.
    """
    weights = np.array([times.get(name, 0.0) + 1.0 for name in part.names])
    found: FrozenSet[str] = frozenset()
    waiting = [(0, len(part.names))]
    while waiting:
        waiting.sort(key=lambda region: float(weights[slice(*region)].sum()))
        begin, end = waiting.pop()
        if end - begin < 2:
            continue
        middle = _halved(begin, end, weights, part.ends)
        for region in ((begin, middle), (middle, end)):
            if not goes_on():
                return found
            nodes = frozenset(part.names[slice(*region)])
            other = found - nodes if nodes <= found else found | nodes
            if is_faster(other, found):
                found = other
            waiting.append(region)
    return found


def _halved(begin: int, end: int, weights: Any, ends: FrozenSet[int]) -> int:
    """The place that divides a region into halves; both have nodes."""
    sums = np.cumsum(weights[begin:end])
    shares = {place: float(sums[place - begin - 1] / sums[-1]) for place in range(begin + 1, end)}
    between = [
        place for place in shares if place in ends and _MIDDLE[0] <= shares[place] <= _MIDDLE[1]
    ]
    return min(between or shares, key=lambda place: (abs(shares[place] - 0.5), place))


def _components(view: GraphView, names: Sequence[str]) -> Dict[str, int]:
    """The connected component of each of some nodes, by the edges among them."""
    numbers = {name: number for number, name in enumerate(names)}
    edges: List[Tuple[int, int]] = [
        (numbers[port.node], number)
        for name, number in numbers.items()
        for port in view.inputs(name)
        if port.node in numbers
    ]
    rows, columns = zip(*edges) if edges else ((), ())
    matrix = sparse.coo_matrix(
        (np.ones(len(edges), np.int8), (rows, columns)), shape=(len(names), len(names))
    )
    labels = csgraph.connected_components(matrix, directed=False)[1]
    return {name: int(label) for name, label in zip(names, labels)}


def _scope_of(name: str) -> str:
    """A key that puts a gradient's node beside its forward node."""
    return _BACKWARD.sub("", name)
