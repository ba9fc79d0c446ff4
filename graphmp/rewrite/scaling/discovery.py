"""Gradient code that no name tells of, found by what it computes: a graph whose names were changed, or calls that TensorFlow didn't name.

1. Gradients start from ones, or else from values that are fed or constant. What depends on them is a factor of them all the way: no
   constant is added, no two are multiplied (`policy/homogeneity.txt`). Ones of the forward pass lead to such a product or sum, or only
   to a part of what true seeds lead to.
2. There is a matmul or convolution in it that reads what one of the forward pass reads too: a weight, an activation.
3. It ends behind the last op that needs the forward pass: what scales, clips and averages gradients is no gradient code.
"""

from __future__ import annotations

import itertools
from typing import AbstractSet, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from graphmp.graph.calls import CALLS
from graphmp.graph.control_flow import ENTERS, MERGES
from graphmp.graph.order import in_order
from graphmp.graph.values import all_equal
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.graph.view import GraphView, Port
from graphmp.policy.homogeneity import rule
from graphmp.policy.policy import tensor_core_ops
from graphmp.policy.traits import KEEPS_VALUES

_MOST_SOURCES = 100
_SUMS = frozenset(("AccumulateNV2", "AddN", "Sum"))
_FACTORS = {"product": None, "quotient": 0, "solution": 1}  # the input that gradients come by; of a product any, but one alone


class Discovered(NamedTuple):
    """One call of `tf.gradients`: its code, seeds included, and where that starts."""

    nodes: AbstractSet[str]
    seeds: Tuple[Port, ...]


class Floats(NamedTuple):
    """What is asked about outputs: whether one holds floating point numbers, and which op types call functions."""

    carries: Callable[[Port], bool]
    functions: AbstractSet[str]


def discover(view: GraphView, floats: Floats, targets: Iterable[Port], gradients: Iterable[Port]) -> List[Discovered]:
    """Finds the gradient code that values are computed by.

    Args:
        view: the graph.
        floats: of its outputs.
        targets: what writes take.
        gradients: what of it must be gradients: they may start from the user's own `grad_ys`.
    """
    return _Discovery(view, floats, targets, gradients).calls()


class _Discovery:
    def __init__(self, view: GraphView, floats: Floats, targets: Iterable[Port], gradients: Iterable[Port]):
        self._view, self._floats = view, floats
        self._gradients = {port.node for port in gradients}
        self._allow = frozenset(tensor_core_ops()) | floats.functions | CALLS
        needed = view.ancestors({port.node for port in targets}, control=False)
        worth = any(view.nodes[name].op in self._allow for name in needed)
        self._order = [name for name in in_order(view, view.nodes.keys()) if name in needed] if worth else []

    def calls(self) -> List[Discovered]:
        self._chosen: List[Port] = []
        self._alone: Dict[Port, Set[str]] = {}
        region = self._add(filter(self._is_ones, self._order), set())
        if self._gradients - self._view.descendants(region, control=False):
            self._add(itertools.islice(filter(self._is_source, self._order), _MOST_SOURCES), region)
        return [self._call(seeds) for seeds in _overlapping(self._chosen, self._alone)]

    def _add(self, names: Iterable[str], region: Set[str]) -> Set[str]:
        """Chooses seeds among outputs, those that lead furthest first, and returns all that the chosen ones lead to."""
        regions = {Port(name, 0): self._linear([Port(name, 0)]) for name in names}
        self._alone.update((seed, nodes) for seed, nodes in regions.items() if self._goes_back(nodes))
        for seed in sorted(regions.keys() & self._alone.keys(), key=lambda seed: (-len(regions[seed]), seed)):
            with_seed = self._linear([*self._chosen, seed]) if not regions[seed] <= region else region
            if region < with_seed:
                self._chosen, region = [*self._chosen, seed], with_seed
        return region

    def _call(self, seeds: Sequence[Port]) -> Discovered:
        region = self._linear(seeds)
        ahead = [name for name in self._order if self._view.nodes[name].op in self._allow and name not in region]
        forward = self._view.followed(ahead, lambda name: name not in region)
        last = [name for name in region if self._needs_forward(name, region, forward)]
        nodes = self._view.ancestors(last, control=False) & region
        for name in (name for name in self._order if name in region and name not in nodes):
            if self._view.nodes[name].op in KEEPS_VALUES | _SUMS and all(p.node in nodes for p in self._values(name)):
                nodes.add(name)
        return Discovered(nodes | {seed.node for seed in seeds}, tuple(seeds))

    def _needs_forward(self, name: str, region: AbstractSet[str], forward: AbstractSet[str]) -> bool:
        op = self._view.nodes[name].op
        law = rule(op)
        by_slot = law.slots is not None and law.name == "linear"
        return op in self._allow or by_slot or any(port.node in forward and port.node not in region for port in self._values(name))

    def _is_source(self, name: str) -> bool:
        """Whether a node may be the user's own `grad_ys`."""
        return not self._carried(name) and self._floats.carries(Port(name, 0)) and self._view.nodes[name].op not in VARIABLE_OPS

    def _is_ones(self, name: str) -> bool:
        node = self._view.nodes[name]
        if not self._floats.carries(Port(name, 0)) or not self._view.consumers(name):
            return False
        if node.op == "Fill":
            return all_equal(self._view.nodes[self._view.inputs(name)[1].node], 1)
        fills = all(self._view.nodes[consumer.node].op == "Fill" for consumer in self._view.consumers(name))
        return node.op == "OnesLike" or (not fills and all_equal(node, 1))

    def _linear(self, seeds: Sequence[Port]) -> Set[str]:
        """Nodes that give a multiple of the seeds."""
        starts, found = set(seeds), set()
        for name in self._order:
            scaled = {slot for slot, port in enumerate(self._view.inputs(name)) if port in starts or port.node in found}
            if scaled and self._is_linear(name, scaled):
                found.add(name)
        return found

    def _is_linear(self, name: str, scaled: AbstractSet[int]) -> bool:
        op = self._view.nodes[name].op
        law = rule(op)
        if op in self._floats.functions or op in CALLS or op in MERGES:
            return True
        if law.name in _FACTORS:
            own = sorted(self._carried(name)) if law.slots is None else law.slots
            place = _FACTORS[law.name]
            return len(scaled) == 1 and scaled <= set(own if place is None else own[place : place + 1])
        if law.name not in ("linear", "reduce", "each"):
            return False
        carried = self._carried(name)
        about = carried if law.slots is None else {slot: carried[slot] for slot in law.slots if slot in carried}
        return law.name == "each" or (scaled <= set(about) and all(slot in scaled or self._is_zero(port) for slot, port in about.items()))

    def _is_zero(self, port: Port) -> bool:
        node = self._view.nodes[port.node]
        if node.op in KEEPS_VALUES | ENTERS:
            return self._is_zero(self._view.inputs(port.node)[0])
        value = self._view.nodes[self._view.inputs(port.node)[1].node] if node.op == "Fill" else node
        return node.op == "ZerosLike" or node.op.startswith("TensorArray") or all_equal(value, 0)

    def _carried(self, name: str) -> Dict[int, Port]:
        return {slot: port for slot, port in enumerate(self._view.inputs(name)) if self._floats.carries(port)}

    def _values(self, name: str) -> Iterator[Port]:
        return iter(self._carried(name).values())

    def _goes_back(self, region: AbstractSet[str]) -> bool:
        """Whether a matmul or convolution among the nodes shares an input with another, which is not made of it."""
        ahead: Dict[Port, Set[str]] = {}
        for name in (name for name, node in self._view.nodes.items() if node.op in self._allow and name not in region):
            for port in self._values(name):
                ahead.setdefault(self._source(port), set()).add(name)
        for name in (name for name in region if self._view.nodes[name].op in self._allow):
            sharing = {other for port in self._values(name) if port.node not in region for other in ahead.get(self._source(port), ())}
            if sharing and not sharing & self._view.descendants([name], control=False):
                return True
        return False

    def _source(self, port: Port) -> Port:
        while self._view.nodes[port.node].op in KEEPS_VALUES | ENTERS and self._carried(port.node):
            port = self._view.inputs(port.node)[0]
        return port


def _overlapping(seeds: Sequence[Port], regions: Dict[Port, Set[str]]) -> Iterator[List[Port]]:
    """Seeds, those together whose gradients come together."""
    if not seeds:
        return
    pairs = [(i, j) for i, one in enumerate(seeds) for j, other in enumerate(seeds) if i <= j and (i == j or regions[one] & regions[other])]
    ends = np.array(pairs, int).T
    count, group = connected_components(coo_matrix((np.ones(len(pairs)), ends), (len(seeds), len(seeds))), directed=False)
    for number in range(count):
        yield [seed for place, seed in enumerate(seeds) if group[place] == number]
