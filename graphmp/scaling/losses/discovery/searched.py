"""A graph in which gradient code is searched."""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Iterable, List, Mapping, NamedTuple

from graphmp.graph.structure.order import in_order
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import CALLS
from graphmp.policy.policy import tensor_core_ops
from graphmp.scaling.degrees.zeros import Zeros


class Floats(NamedTuple):
    """Questions about outputs.

    Whether one holds floating-point numbers, and which op types call functions.
    """

    carries: Callable[[Port], bool]
    functions: AbstractSet[str]


class SearchedGraph:
    """A graph, and the questions of the search.

    Attributes:
        view: the graph.
        floats: questions about its outputs.
        order: the names of its nodes in topological order.
        place: the place of each name there.
        needed: the nodes whose values writes take, or that may be gradients.
        written: the variables to which the value of a node is written.
        gradients: the nodes that must return gradients.
        products: op types of matmuls, convolutions and calls.
    """

    def __init__(
        self,
        view: GraphView,
        floats: Floats,
        targets: Mapping[Port, AbstractSet[str]],
        unread: Iterable[str],
        gradients: Iterable[Port],
    ):
        """The arguments are those of `discover`."""
        self.view, self.floats = view, floats
        self.written = {port.node: variables for port, variables in targets.items()}
        self.gradients = {port.node for port in gradients}
        self.products = frozenset(tensor_core_ops()) | floats.functions | CALLS
        self.needed = view.ancestors({*(port.node for port in targets), *unread}, control=False)
        self.order = in_order(view, view.nodes.keys())
        self.place = {name: number for number, name in enumerate(self.order)}
        self._zeros = Zeros(view, floats.carries)

    def op(self, name: str) -> str:
        return self.view.nodes[name].op

    def is_zero(self, port: Port) -> bool:
        return self._zeros.has(port.node)

    def carried(self, name: str) -> Dict[int, Port]:
        """The inputs of a node that hold floating-point numbers, by slot."""
        carries = self.floats.carries
        return {slot: port for slot, port in enumerate(self.view.inputs(name)) if carries(port)}

    def values(self, name: str) -> List[Port]:
        """The inputs of a node that hold floating-point numbers."""
        return list(self.carried(name).values())

    def multiply(self, region: Iterable[str]) -> bool:
        """Whether some nodes are matmuls, convolutions or calls."""
        return any(self.op(name) in self.products for name in region)
