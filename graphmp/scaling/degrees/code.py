"""Gradient code through which the loss scale is followed, and which values can carry it."""

from __future__ import annotations

from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
)

from graphmp.graph.structure.view import Consumer, GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.once import remembered
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import (
    ADDS,
    ARRAY_READS,
    ENTERS,
    EXITS,
    MERGES,
    NEXT_ITERATIONS,
    SWITCHES,
)
from graphmp.scaling.degrees.zeros import Zeros

Degree = Optional[int]  # None for zeros, which have any degree
Called = Callable[[str, Sequence[Degree]], Optional[Sequence[Degree]]]

_HANDS_ON = ENTERS | EXITS | MERGES | NEXT_ITERATIONS | SWITCHES | ADDS | {"AddN", "Identity"}


class ScaledCode(NamedTuple):
    """Gradient code through which the scale is followed.

    Attributes:
        view: the graph.
        nodes: the gradient code.
        seeds: its start; their degree is 1.
        is_float: whether an output holds floating-point numbers.
        is_list: whether an output can't be multiplied in place: a TensorList, which may hold
            floating-point numbers, or complex numbers.
        calls: op types that call functions.
        looped: whether a node is in a while loop.
        called: the degrees of a call's results, given those of its inputs; None if they depend on
            more.
    """

    view: GraphView
    nodes: AbstractSet[str]
    seeds: AbstractSet[Port]
    is_float: Callable[[Port], bool]
    is_list: Callable[[Port], bool]
    calls: AbstractSet[str]
    looped: Callable[[str], bool]
    called: Called = lambda name, given: None


class Carriers:
    """The nodes of code that depend on a given value, and what they read.

    Attributes:
        code: the code.
        given: the degrees of the outputs that the code starts from.
        scaled: nodes that depend on one of them through ops that pass a factor on.
        inputs: the inputs, by slot, that can carry a factor, of each of these nodes in the order of
            the graph.
        loop_variables: those of these nodes that are loop variables.
        flows: nodes that pass on the flow of a TensorArray.
    """

    def __init__(self, code: ScaledCode, given: Mapping[Port, Degree]):
        """`given`: None for zeros."""
        self.code = code
        self.given = {port: degree for port, degree in given.items() if degree is not None}
        free = [port.node for port, degree in given.items() if degree is None]
        self._view = code.view
        self._zeros = Zeros(self._view, self.carries, free)
        self.flows = _flows(self._view)
        self.scaled = self._dependent()
        self.inputs = {name: self._floats(name) for name in self._view.in_graph_order(self.scaled)}
        self.loop_variables = [name for name in self.inputs if self.is_loop_variable(name)]

    def is_zero(self, name: str) -> bool:
        """Whether a node is zero, or a TensorArray or TensorList of zeros: it has any degree."""
        return self._zeros.has(name)

    def is_free(self, port: Port) -> bool:
        """Whether an output without a degree may have any.

        The flow of a TensorArray may not: it doesn't determine the array's contents.
        """
        return port not in self.given and (
            port.node in self.scaled or port.node in self.flows or self.is_zero(port.node)
        )

    def is_held(self, port: Port) -> bool:
        """Whether an output can't be multiplied.

        A TensorList, complex numbers, a TensorArray's flow.
        """
        return self.code.is_list(port) or port.node in self.flows

    def carries(self, port: Port) -> bool:
        """Whether an output can carry a factor."""
        return self.code.is_float(port) or self.code.is_list(port)

    def readers(self, name: str) -> Iterator[Consumer]:
        """Nodes of the code that read what a node can carry."""
        for consumer in self._view.consumers(name):
            if consumer.node in self.code.nodes and self.carries(Port(name, consumer.output)):
                yield consumer

    def is_loop_variable(self, name: str) -> bool:
        """Whether a node is the Merge of a loop variable."""
        if self._view.nodes[name].op not in MERGES or not self.code.looped(name):
            return False
        return any(
            self._view.nodes[port.node].op in NEXT_ITERATIONS for port in self._view.inputs(name)
        )

    def held_together(self, name: str) -> Set[str]:
        """Nodes that pass on, write or read the same lists, arrays or complex numbers."""

        def beside(name: str) -> Iterator[str]:
            yield from (port.node for port in self._view.inputs(name) if self.is_held(port))
            for reader in self.readers(name):
                if self.is_held(Port(name, reader.output)):
                    yield reader.node

        return reached([name], beside, lambda other: other == name or other in self.scaled)

    def _dependent(self) -> Set[str]:
        """Nodes that depend on a given value through ops that pass a factor on."""
        starts = {port for port, degree in self.given.items() if degree}
        first = [
            reader.node
            for port in starts
            for reader in self.readers(port.node)
            if reader.output == port.output
        ]
        return reached(
            first,
            lambda name: [reader.node for reader in self.readers(name)],
            lambda name: rule(self._view.nodes[name].op).name != "none",
        )

    def _floats(self, name: str) -> Dict[int, Port]:
        return {
            slot: port for slot, port in enumerate(self._view.inputs(name)) if self.carries(port)
        }


@remembered
def _flows(view: GraphView) -> Set[str]:
    """Nodes that pass on the flow of a TensorArray; a loop's gradient adds flows up."""

    def is_array(name: str) -> bool:
        op = view.nodes[name].op
        return op.startswith("TensorArray") and op not in ARRAY_READS

    return view.followed(
        filter(is_array, view.nodes),
        lambda name: view.nodes[name].op in _HANDS_ON or is_array(name),
    )
