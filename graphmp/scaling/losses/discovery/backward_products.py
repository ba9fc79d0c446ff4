"""Whether nodes go back through a model: they multiply by what its forward pass multiplies by."""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Optional, Set, Tuple

from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import ENTERS, POPS, PUSHES, SWITCHES
from graphmp.policy.traits import KEEPS_VALUES
from graphmp.scaling.losses.discovery.searched import SearchedGraph

_TRANSPOSES = (("transpose_a", "transpose_b"), ("adj_x", "adj_y"))


class BackwardProducts:
    """Answers for one graph."""

    def __init__(self, graph: SearchedGraph):
        self._graph, self._view = graph, graph.view
        self._multiplies = graph.multiply(graph.needed)

    def go_back(self, seed: Port, region: AbstractSet[str]) -> bool:
        """Whether a matmul or convolution has an input in common with one outside of the nodes.

        The other isn't a descendant of it, and contracts other dimensions: so does a gradient.
        """
        if not self._multiplies:
            return self._comes_back(region)
        if any(
            self._differentiates(name, seed, region)
            for name in region
            if self._graph.op(name) in self._graph.products
        ):
            return True
        return (
            not self._graph.multiply(region)
            and not region.isdisjoint(self._graph.gradients)
            and self._comes_back(region)
        )

    def _differentiates(self, name: str, seed: Port, region: AbstractSet[str]) -> bool:
        """Whether a product in a region is one of a gradient and an operand of another product."""
        given = {
            slot: self._source(port)
            for slot, port in self._graph.carried(name).items()
            if port != seed and port.node not in region
        }
        shared = {
            (slot, other)
            for slot, port in given.items()
            for other in self._multiplied.get(port, ())
            if other[0] not in region
        }
        after = self._view.descendants([name], control=False) if shared else set()
        before = [
            self._crossing(name, slot, *other) for slot, other in shared if other[0] not in after
        ]
        return any(before) or (None in before and len(before) == len(shared))

    @once
    def _multiplied(self) -> Dict[Port, List[Tuple[str, int]]]:
        """The matmuls and convolutions that take each value, with the slot."""
        found: Dict[Port, List[Tuple[str, int]]] = {}
        for name, node in self._view.nodes.items():
            products = node.op in self._graph.products
            for slot, port in self._graph.carried(name).items() if products else ():
                found.setdefault(self._source(port), []).append((name, slot))
        return found

    def _comes_back(self, region: AbstractSet[str]) -> bool:
        """Whether nodes multiply by a function of a variable, and are written to that variable."""
        variables = self._graph.written
        written = set().union(*(variables[name] for name in region if name in variables))
        made = self._view.descendants(written, control=False) - region if written else set()
        return any(
            port.node in made
            for name in region
            if rule(self._graph.op(name)).name == "product"
            for port in self._graph.values(name)
        )

    def _crossing(self, name: str, slot: int, other: str, there: int) -> Optional[bool]:
        """Whether two matmuls contract different dimensions of a common operand.

        None for other ops.
        """
        one, two = (self._contracted(*each) for each in ((name, slot), (other, there)))
        return None if one is None or two is None else one != two

    def _contracted(self, name: str, slot: int) -> Optional[bool]:
        """The dimension of a matmul's operand, of the last two, that is contracted.

        None for other ops.
        """
        node = self._view.nodes[name]
        transposes = next((pair for pair in _TRANSPOSES if pair[0] in node.attr), None)
        return None if transposes is None else (slot == 0) ^ node.attr[transposes[slot]].b

    def _source(self, port: Port) -> Port:
        """The value that an output is a copy of, or was before it waited on a stack."""
        seen: Set[Port] = set()
        while port not in seen:
            seen.add(port)
            op, inputs = self._graph.op(port.node), self._view.inputs(port.node)
            if op in POPS:
                port = self._pushed.get(self._stack(inputs[0]), port)
            elif op in KEEPS_VALUES | ENTERS and self._graph.carried(port.node):
                port = inputs[0]
        return port

    def _stack(self, handle: Port) -> str:
        return self._view.behind(handle, ENTERS | SWITCHES | {"Identity"}).node

    @once
    def _pushed(self) -> Dict[str, Port]:
        """The value that is pushed on each stack."""
        pushes = (name for name, node in self._view.nodes.items() if node.op in PUSHES)
        return {self._stack(inputs[0]): inputs[1] for inputs in map(self._view.inputs, pushes)}
