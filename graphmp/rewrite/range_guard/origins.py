"""The units behind a tensor, to the matmuls and convolutions that give it.

The walk back ends with a matmul or convolution, at a Softmax, whose results weight a mean, at a
Sign, and at a bounded result that nothing has scaled: `Round(Sigmoid)` is no index. A matmul that
transforms positions, of at most four products a sum, doesn't end it.
"""

from __future__ import annotations

from typing import Dict, Iterator, Set, Tuple

from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.state.state import variable_behind
from graphmp.graph.structure.view import Port
from graphmp.policy.policy import Policy
from graphmp.policy.traits import BOUNDED, FORGETS_SIZES, FORGETS_VALUES, WEIGHTS_OF_MEAN
from graphmp.rewrite.units import TypedGraph

_MOST_TRANSFORMED = 4  # homogeneous coordinates in space
_TRANSPOSES = {0: ("transpose_a", "adj_x"), 1: ("transpose_b", "adj_y")}


class Origins:
    """Walks back in a graph body; each unit is found once."""

    def __init__(self, graph: TypedGraph, policy: Policy):
        """`policy` says by its lists what matmuls and convolutions are, and what scales nothing."""
        self._graph, self._policy = graph, policy
        self._seen: Dict[bool, Set[Tuple[Port, bool]]] = {False: set(), True: set()}

    def behind(self, start: Port, to_product: bool, scaled: bool = False) -> Iterator[int]:
        """The units behind a tensor that no earlier walk has found.

        Args:
            start: the tensor.
            to_product: whether the matmuls and convolutions are among the units.
            scaled: whether a bounded result matters though nothing scales it.
        """
        graph, policy, seen = self._graph, self._policy, self._seen[to_product]
        waiting = [(start, scaled)]
        while waiting:
            port, scaled = waiting.pop()
            unit, op = graph.writer(port), graph.view.nodes[port.node].op
            if (port, scaled) in seen or unit < 0 or _is_end(graph, port.node, scaled):
                continue
            seen.add((port, scaled))
            if op in policy.allow:
                if to_product:
                    yield from graph.units_of(port.node)
                if not (to_product and _transforms(graph, port.node)):
                    continue
            elif op != "Const":
                yield unit
            if op not in WEIGHTS_OF_MEAN:
                scaled = scaled or op not in policy.clear
                waiting.extend((each, scaled) for each in graph.view.inputs(port.node))


def _is_end(graph: TypedGraph, name: str, scaled: bool) -> bool:
    op = graph.view.nodes[name].op
    return (
        name in graph.gradients
        or op in FORGETS_VALUES
        or op in FORGETS_SIZES
        or op == "Cast"
        or variable_behind(graph.view, name) is not None
        or (op in BOUNDED and not scaled)
    )


def _transforms(graph: TypedGraph, name: str) -> bool:
    """Whether a matmul adds up so few products that it transforms positions."""
    node = graph.view.nodes[name]
    if "MatMul" not in node.op:
        return False
    for slot, port in enumerate(graph.view.inputs(name)):
        sizes = recorded_dimensions(graph.view.nodes[port.node], port.output, -1)
        turned = any(key in node.attr and node.attr[key].b for key in _TRANSPOSES[slot])
        place = -2 if turned != (slot == 1) else -1
        if sizes is not None and len(sizes) > 1 and 0 < sizes[place] <= _MOST_TRANSFORMED:
            return True
    return False
