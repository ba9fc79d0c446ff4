"""The forward node of each node of gradient code whose name doesn't tell.

Gradients run backwards, and read inputs or outputs of their forward node.

1. A node that makes a gradient of the loss's shape starts at that loss.
2. A node that reads values of the forward pass belongs to the nearest node that has all of them as
   inputs or outputs, searched from the origin of its gradients towards the inputs; `TanhGrad` to a
   `Tanh`. The gradient of an op that is linear in its input reads only shapes. Behind a product,
   gradients are those of the other factor. A constant of the forward pass counts as such a value
   where a node reads no other.
3. A node that reads none belongs to the origin of its gradients; a sum over broadcast dimensions
   belongs to the nearest node with two operands. A sum of gradients of several nodes belongs to
   none.
4. A node computed only for gradient code, a shape or a factor, belongs to its consumer's node.
"""

from __future__ import annotations

import re
from typing import (
    AbstractSet,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from graphmp.graph.structure.view import GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import ASSIGNS, ENTERS, FILLS, UPDATE_PREFIXES
from graphmp.policy.policy import tensor_core_ops
from graphmp.policy.traits import FORGETS_VALUES

_COPIES = ENTERS | {"Identity", "StopGradient"}
_OF_SHAPES = FILLS | {"Shape", "ShapeN", "VariableShape"}
_MATMULS = frozenset(tensor_core_ops())
_GRAD = re.compile(r"(?:Grad|Backprop).*$")
# steps from one node's gradient to the next, through copies and nodes without gradient code
_FURTHEST = 12


class Backward(NamedTuple):
    """Gradient code.

    Attributes:
        view: the graph.
        order: its nodes in topological order.
        nodes: the gradient code.
        scaled: its nodes that depend on a seed, seeds included.
        seeds: its start.
        carries: tells whether an output holds floating-point numbers.
        outside: other nodes outside the forward pass: other gradient code.
    """

    view: GraphView
    order: Sequence[str]
    nodes: AbstractSet[str]
    scaled: AbstractSet[str]
    seeds: Sequence[Port]
    outside: AbstractSet[str]
    carries: Callable[[Port], bool]


class _Read(NamedTuple):
    """The inputs that gradient code reads from the forward pass: values, and only shapes."""

    values: AbstractSet[Port]
    shapes: AbstractSet[Port]


def differentiated_nodes(code: Backward) -> Dict[str, str]:
    """The forward node of each node of gradient code that has one."""
    return _Walk(code).found()


class _Walk:
    def __init__(self, code: Backward):
        self._code, self._view = code, code.view
        self._place = {name: number for number, name in enumerate(code.order)}
        self._forward: Dict[str, str] = {}
        # the forward outputs whose gradient a node computes
        self._at: Dict[str, FrozenSet[str]] = {}
        self._users: Dict[Port, Set[str]] = {}
        self._kinds: Dict[str, Set[str]] = {}
        self._broadcasting: Set[str] = set()
        self._outside = (
            code.outside
            | code.nodes
            | code.view.descendants({seed.node for seed in code.seeds}, control=False)
        )
        for name in code.order:
            op = code.view.nodes[name].op
            own = (
                name not in self._outside
                and op not in _COPIES | ASSIGNS | FORGETS_VALUES
                and not op.startswith(UPDATE_PREFIXES)
            )
            if own and code.carries(Port(name, 0)):
                self._kinds.setdefault(op, set()).add(name)
                if (
                    len(code.view.inputs(name)) == 2
                    and all(map(code.carries, code.view.inputs(name)))
                    and op not in _MATMULS
                ):
                    self._broadcasting.add(name)
                for port in code.view.inputs(name):
                    self._users.setdefault(self._view.behind(port, _COPIES), set()).add(name)

    def found(self) -> Dict[str, str]:
        """The forward nodes.

        First of nodes that depend on seeds, in their order, then of the rest.
        """
        inside = [name for name in self._code.order if name in self._code.nodes]
        for name in (name for name in inside if name in self._code.scaled):
            self._locate(name)
        for name in reversed(inside):
            owner = next(
                (
                    self._forward[c.node]
                    for c in self._view.consumers(name)
                    if c.node in self._forward
                ),
                None,
            )
            if name not in self._code.scaled and owner is not None:
                self._forward[name] = owner
        return self._forward

    def _locate(self, name: str) -> None:
        """Find the forward node of a node, and the outputs whose gradient it computes."""
        came = {port.node for port in self._view.inputs(name) if port.node in self._at}
        at: FrozenSet[str] = frozenset().union(*(self._at[other] for other in came))
        read = self._read(name)
        factor = self._factor(name)
        if factor.values and not read.values and self._nearest(name, at, factor):
            read = factor
        if read.values:
            own = self._nearest(name, at, read)
        elif read.shapes or self._is_named(name) or self._is_broadcast(name):
            own = self._nearest(
                name,
                at
                | {
                    self._forward[other]
                    for other in came
                    if other in self._forward and not self._ends(other)
                },
                read,
            )
        else:
            own = self._only({self._forward.get(other, "") for other in came}) or None
        self._at[name] = at if own is None else self._behind(own, read)
        if own:
            self._forward[name] = own

    def _behind(self, own: str, read: _Read) -> FrozenSet[str]:
        """The value whose gradient leaves a node: the other factor of a product."""
        if rule(self._view.nodes[own].op).name != "product" or not read.values:
            return frozenset((own,))
        ports = [self._view.behind(port, _COPIES) for port in self._view.inputs(own)]
        return frozenset(
            port.node for port in [port for port in ports if port not in read.values] or ports
        )

    def _only(self, names: AbstractSet[str]) -> Optional[str]:
        return next(iter(names)) if len(names) == 1 else None

    def _read(self, name: str) -> _Read:
        """The forward values that a node reads, directly or through other gradient code."""

        def op(port: Port) -> str:
            return str(self._view.nodes[port.node].op)

        def is_end(port: Port) -> bool:
            return port.node not in self._code.nodes and op(port) not in _OF_SHAPES

        def before(place: Tuple[Port, bool]) -> List[Tuple[Port, bool]]:
            port, of_shape = place
            of_shape = of_shape or op(port) in _OF_SHAPES
            inputs = () if is_end(port) else self._view.inputs(port.node)
            return [(other, of_shape) for other in inputs]

        read = reached(
            [(port, False) for port in self._view.inputs(name)],
            before,
            lambda place: place[0].node not in self._code.scaled and op(place[0]) != "Const",
        )
        values, shapes = (
            {
                self._view.behind(port, _COPIES)
                for port, of_shape in read
                if of_shape == kind and is_end(port)
            }
            for kind in (False, True)
        )
        return _Read(values, shapes)

    def _factor(self, name: str) -> _Read:
        """The constant of the forward pass by which a node multiplies or divides."""
        ports = (self._view.behind(port, _COPIES) for port in self._view.inputs(name))
        return _Read(
            {
                port
                for port in ports
                if port in self._users
                and self._view.nodes[port.node].op == "Const"
                and self._code.carries(port)
            },
            set(),
        )

    def _nearest(self, name: str, starts: AbstractSet[str], read: _Read) -> Optional[str]:
        """The forward node that has all the given inputs or outputs.

        Among several, the first from the origin of gradients, or the last of the forward pass.
        """
        users = [
            self._users.get(port, set()) | self._makers(port) for port in read.values | read.shapes
        ]
        kind = self._kinds.get(_GRAD.sub("", self._view.nodes[name].op), set())
        kind = self._broadcasting if self._is_broadcast(name) else kind
        having = set.intersection(*users) - self._outside if users else kind
        if self._is_named(name) and having & kind:
            having = having & kind
        elif Port(name, 0) in self._code.seeds:
            having &= {port.node for port in read.shapes}
        elif read.values:
            having = {other for other in having if not self._is_linear(other)}
        wave, seen = (
            sorted(starts or (having if users or self._is_named(name) else ())),
            set(starts),
        )
        for _ in range(_FURTHEST):
            reached = [other for other in wave if other in having]
            if reached:
                return max(reached, key=self._place.__getitem__)
            wave = self._before(wave, seen)
        return None

    def _makers(self, port: Port) -> Set[str]:
        """The source of a value that has a gradient, unlike predicates and indices."""
        return {port.node} if self._code.carries(port) else set()

    def _is_named(self, name: str) -> bool:
        """Whether an op is named after the op that it differentiates."""
        return bool(_GRAD.search(self._view.nodes[name].op))

    def _is_broadcast(self, name: str) -> bool:
        """Whether a node sums over broadcast dimensions.

        Either its axes show it, or it reads a whole gradient and gets another shape.
        """
        if any(
            self._view.nodes[port.node].op == "BroadcastGradientArgs"
            for port in self._view.inputs(name)
        ):
            return True
        if self._view.nodes[name].op != "Sum" or not all(
            self._view.nodes[c.node].op == "Reshape" for c in self._view.consumers(name)
        ):
            return False
        return any(
            self._is_named(port.node) or self._ends(port.node)
            for port in self._view.inputs(name)[:1]
        )

    def _ends(self, name: str) -> bool:
        """Whether a node is the last one of a gradient of two operands.

        It restores the shape before broadcasting, or is a copy of such a node.
        """
        name = self._view.behind(Port(name, 0), ["Identity"]).node
        return (
            self._view.nodes[name].op == "Reshape"
            and self._view.nodes[self._view.inputs(name)[0].node].op == "Sum"
        )

    def _is_linear(self, name: str) -> bool:
        law = rule(self._view.nodes[name].op)
        return law.name == "linear" and law.slots is None

    def _before(self, names: Iterable[str], seen: Set[str]) -> List[str]:
        """The forward nodes before some others, each once."""
        fresh = (
            {
                self._view.behind(port, _COPIES).node
                for name in names
                for port in self._view.inputs(name)
            }
            - seen
            - self._code.nodes
        )
        seen |= fresh
        return sorted(fresh)
