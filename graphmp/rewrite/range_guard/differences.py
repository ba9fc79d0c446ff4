"""Small differences of large terms, which half precision has no digits for, stay float32.

1. `Mean(x * x) - Mean(x) * Mean(x)`: two terms of a sum, some term of which is subtracted, are
   products of one tensor, one of them behind a reduction, and the sum leads to a root, a logarithm
   or a division. In half precision a variance becomes negative, and its root NaN. All between that
   tensor and the sum is float32. The matmul of a tensor with itself is such a product, as in
   distances `|a|^2 - 2 ab + |b|^2`; a matmul or convolution with what is made of constants,
   such as a Gaussian window, reduces, and its gradient is float32 too.
2. `Log(1 - p)`, `1 / (1 - p)`, `Sqrt(1 - p * p)`, `Acos(p)`, and the logarithm of a Softmax or
   Sigmoid: float32 from the last matmul or convolution, which may be half.
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from graphmp.graph.structure.values import float32_values
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import ENTERS, IDENTITIES, SUMS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import RANGE_GUARD, Reason
from graphmp.policy.traits import (
    BIAS_ADDS,
    BOUNDED,
    DISCONTINUOUS,
    DIVIDES,
    FORGETS_VALUES,
    REDUCES,
    SINGULAR,
    SINGULAR_AT_ONE,
    SQUARES,
)
from graphmp.rewrite.range_guard.derivations import behind, made_of
from graphmp.rewrite.range_guard.origins import Origins
from graphmp.rewrite.units import TypedGraph

_MOST = 200  # tensors behind a sum or a term
_EPSILON = 0.02  # constants up to this size keep off zero what they are added to
_LINEAR = SUMS | BIAS_ADDS | {"Neg", "Sub"}
_SUBTRACTS = frozenset(("Neg", "Sub"))


class _Sum(NamedTuple):
    """A sum.

    Attributes:
        terms: what it adds up.
        subtracts: a node that subtracts one of them; empty if there is none.
        has_constant: whether one is a constant, and no epsilon.
    """

    terms: List[Port]
    subtracts: str
    has_constant: bool


class _Way(NamedTuple):
    """A tensor behind a term: whether it is multiplied by itself on the way, and added up."""

    port: Port
    squared: bool
    reduced: bool


def differences(
    graph: TypedGraph, policy: Policy, computed: AbstractSet[str]
) -> Iterator[Tuple[int, Reason]]:
    """Units whose rounding would be as large as a difference, with reasons.

    `computed` are the nodes behind matmuls and convolutions.
    """
    search = _Search(graph, policy, computed)
    nodes, view = graph.view.nodes, graph.view
    forward = computed - graph.gradients
    ends = [name for name in nodes if nodes[name].op in SINGULAR | DIVIDES and name in forward]
    for name in ends:
        yield from search.beside_a_constant(name)
    for name in view.in_graph_order(search.ahead_of(ends)):
        followers = [nodes[consumer.node].op in _LINEAR for consumer in view.consumers(name)]
        if nodes[name].op in _LINEAR and not all(followers):
            yield from search.of_products(name)


class _Search:
    def __init__(self, graph: TypedGraph, policy: Policy, computed: AbstractSet[str]):
        self._graph, self._policy, self._computed = graph, policy, computed
        self._nodes, self._origins = graph.view.nodes, Origins(graph, policy)

    def ahead_of(self, names: List[str]) -> Set[str]:
        """Nodes of sums and products that lead to others, and these.

        A dividend counts if its divisor is computed too: by another one nothing comes near 0.
        """
        graph, seen = self._graph, set(names)
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            ports = graph.view.inputs(name)
            if self._nodes[name].op in DIVIDES and ports[1].node not in self._computed:
                ports = ()
            for port in ports:
                op = self._nodes[port.node].op
                passes = op in _LINEAR | DIVIDES | SINGULAR | {"Mul"} or self._copies(port.node)
                is_new = port.node not in seen and port.node not in graph.gradients
                if passes and is_new and graph.writer(port) >= 0:
                    seen.add(port.node)
                    waiting.append(port.node)
        return seen

    def beside_a_constant(self, name: str) -> Iterator[Tuple[int, Reason]]:
        """Rule 2, for an op that is singular somewhere."""
        op, ports = self._nodes[name].op, self._graph.view.inputs(name)
        port = ports[1] if op in DIVIDES else ports[0]
        found = self._sum(port)
        beside = op in SINGULAR_AT_ONE or (
            bool(found.subtracts) and (found.has_constant or op == "Log1p")
        )
        of_bounded = op == "Log" and any(self._nodes[t.node].op in BOUNDED for t in found.terms)
        if (beside or of_bounded) and port.node in self._computed:
            reason = Reason(RANGE_GUARD, "leads to %s, near its singularity" % name, name)
            units = self._origins.behind(port, to_product=False, scaled=True)
            yield from ((unit, reason) for unit in units)

    def of_products(self, name: str) -> Iterator[Tuple[int, Reason]]:
        """Rule 1, for a sum."""
        start = Port(name, 0)
        found = self._sum(start)
        if not found.subtracts or len(found.terms) < 2:
            return
        shared: Dict[Port, List[bool]] = collections.defaultdict(list)
        for term in found.terms:
            for port, reduced in self._squares(term).items():
                shared[port].append(reduced)
        sources = {port for port, ways in shared.items() if len(ways) > 1 and any(ways)}
        words = "leads to %s, a small difference of large terms" % found.subtracts
        reason = Reason(RANGE_GUARD, words, found.subtracts)
        for port in made_of(sources, behind(start, self._onward, sources)):
            for node in (port.node, *self._gradients_of_filter(port.node)):
                yield from ((unit, reason) for unit in self._graph.units_of(node))

    def _gradients_of_filter(self, name: str) -> Iterator[str]:
        """The gradients of a matmul or convolution with constants: these add up both terms'."""
        graph = self._graph
        if self._nodes[name].op in self._policy.allow:
            constants = [port for port in self._floats(name) if port not in self._varying(name)]
            readers = [each.node for port in constants for each in graph.view.consumers(port.node)]
            yield from (
                node
                for node in readers
                if node in graph.gradients and graph.differentiated(node) == name
            )

    def _sum(self, start: Port) -> _Sum:
        """The terms that a tensor is the sum of; their signs and sizes don't matter."""
        terms: List[Port] = []
        subtracts, has_constant = "", False
        seen, waiting = {start}, [start]
        while waiting:
            port = waiting.pop()
            op = self._nodes[port.node].op
            scaled = self._scaled(port.node)
            if op in _SUBTRACTS or (scaled is not None and scaled[1]):
                subtracts = subtracts or port.node
            following = [scaled[0]] if scaled is not None else []
            if op in _LINEAR or (self._copies(port.node) and op != "Const"):
                following = self._floats(port.node)
                added = op in _LINEAR and any(self._is_large(each.node) for each in following)
                has_constant = has_constant or added
            if not following and op != "Const":
                terms.append(port)
            for each in following if len(seen) < _MOST else ():
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return _Sum(terms, subtracts, has_constant)

    def _squares(self, term: Port) -> Dict[Port, bool]:
        """Tensors that a term is a product of; for each, whether it is added up on the way."""
        seen: Set[_Way] = set()
        waiting = [_Way(term, False, False)]
        while waiting and len(seen) < _MOST:
            way = waiting.pop()
            if way in seen:
                continue
            seen.add(way)
            name = way.port.node
            op = self._nodes[name].op
            squared = way.squared or op in SQUARES or self._multiplies(name)
            reduced = way.reduced or op in REDUCES or op in self._policy.allow
            waiting.extend(_Way(port, squared, reduced) for port in self._onward(way.port))
        found: Dict[Port, bool] = {}
        for way in seen:
            if way.squared:
                found[way.port] = found.get(way.port, False) or way.reduced
        return found

    def _onward(self, port: Port) -> List[Port]:
        """The tensors that sums, products and reductions make a tensor of."""
        name, op = port.node, self._nodes[port.node].op
        if self._graph.writer(port) < 0 or name in self._graph.gradients:
            return []
        if op in self._policy.allow:
            return self._onward_of_product(name)
        if op in SQUARES or op in DIVIDES:
            return self._floats(name)[:1]
        is_known = op in _LINEAR | REDUCES | {"Mul"} or self._copies(name)
        return self._floats(name) if is_known else []

    def _onward_of_product(self, name: str) -> List[Port]:
        """Of a matmul or convolution: the operands, if they are one tensor; those not constant."""
        ports = self._floats(name)
        varying = self._varying(name)
        if len(ports) != 2 or len(varying) < 2:
            return varying
        same = self._behind_copies(ports[0]) & self._behind_copies(ports[1])
        return ports if same and "MatMul" in self._nodes[name].op else []

    def _behind_copies(self, start: Port) -> Set[Port]:
        def onward(port: Port) -> List[Port]:
            return self._floats(port.node) if self._copies(port.node) else []

        return set(behind(start, onward))

    def _multiplies(self, name: str) -> bool:
        """Whether a node multiplies two tensors, neither of which is made of constants."""
        is_product = self._nodes[name].op == "Mul" or self._nodes[name].op in self._policy.allow
        return is_product and len(self._floats(name)) == len(self._varying(name)) == 2

    def _scaled(self, name: str) -> Optional[Tuple[Port, bool]]:
        """The tensor that a node multiplies or divides, and whether by a negative constant."""
        op, ports = self._nodes[name].op, self._floats(name)
        if op in DIVIDES:
            return ports[0], False
        varies = [port.node in self._graph.varying for port in ports]
        if op != "Mul" or sorted(varies) != [False, True]:
            return None
        return ports[varies.index(True)], self._is_negative(ports[varies.index(False)])

    def _is_large(self, name: str) -> bool:
        node = self._nodes[name]
        return node.op == "Const" and bool((abs(float32_values(node)) > _EPSILON).any())

    def _is_negative(self, port: Port) -> bool:
        source = self._graph.view.behind(port, IDENTITIES | ENTERS).node
        values = float32_values(self._nodes[source])
        return bool(values.size and values.max() < 0)

    def _copies(self, name: str) -> bool:
        """Whether a node only moves, selects or clips what it reads."""
        op = self._nodes[name].op
        return op in self._policy.clear and op not in DISCONTINUOUS | FORGETS_VALUES

    def _floats(self, name: str) -> List[Port]:
        return [port for port in self._graph.view.inputs(name) if self._graph.writer(port) >= 0]

    def _varying(self, name: str) -> List[Port]:
        """The float tensors that a node reads, without those made of constants."""
        return [port for port in self._floats(name) if port.node in self._graph.varying]
