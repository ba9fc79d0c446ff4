"""Calls of `tf.gradients` by their seeds: the values that gradients are multiples of."""

from __future__ import annotations

import itertools
from typing import (
    AbstractSet,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from graphmp.graph.structure.values import all_equal
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.scaling.losses.backward import Backward, differentiated_nodes
from graphmp.scaling.losses.discovery.backward_products import BackwardProducts
from graphmp.scaling.losses.discovery.extent import Extent
from graphmp.scaling.losses.discovery.multiples import Multiples
from graphmp.scaling.losses.discovery.searched import Floats, SearchedGraph

_MOST_SOURCES = 100


class Discovered(NamedTuple):
    """One call of `tf.gradients`.

    Attributes:
        nodes: its code, seeds included.
        seeds: its start.
        forward: the forward nodes of its nodes, where they exist.
    """

    nodes: AbstractSet[str]
    seeds: Tuple[Port, ...]
    forward: Mapping[str, str]


def discover(
    view: GraphView,
    floats: Floats,
    targets: Mapping[Port, AbstractSet[str]],
    unread: Iterable[str],
    gradients: Iterable[Port],
) -> List[Discovered]:
    """Find the gradient code that computes some values.

    Args:
        view: the graph.
        floats: answers questions about its outputs.
        targets: values that writes take, and the variables that are written.
        unread: other nodes that may return gradients: nothing reads them.
        gradients: those that must be gradients: they may start from the user's own `grad_ys`.
    """
    return _Discovery(SearchedGraph(view, floats, targets, unread, gradients)).calls()


class _Discovery:
    def __init__(self, graph: SearchedGraph):
        self._graph, self._view = graph, graph.view
        self._multiples, self._products = Multiples(graph), BackwardProducts(graph)
        self._extent = Extent(graph, self._multiples)
        self._chosen: List[Port] = []
        self._inner: Set[Port] = set()
        self._alone: Dict[Port, Set[str]] = {}

    def calls(self) -> List[Discovered]:
        order = [name for name in self._graph.order if name in self._graph.needed]
        region = self._add(self._leading(filter(self._is_ones, order)), set())
        left = self._graph.gradients - self._view.descendants(region, control=False)
        if left:
            sources = itertools.islice(filter(self._is_source, order), _MOST_SOURCES)
            self._add_given(self._leading(sources), left)
        regions = {seed: self._alone[seed] for seed in self._chosen}
        for seed in self._inner:
            regions[seed] = regions[seed].difference(
                *(self._alone[other] for other in self._chosen if other not in self._inner)
            )
        return [self._call(seeds) for seeds in _overlapping(self._chosen, regions)]

    def _leading(self, names: Iterable[str]) -> Dict[Port, Set[str]]:
        """The multiples of the first outputs of nodes."""
        return {Port(name, 0): self._multiples.of([Port(name, 0)]) for name in names}

    def _add(self, regions: Dict[Port, Set[str]], region: Set[str]) -> Set[str]:
        """Choose seeds, those with the most descendants first; return all their descendants."""
        self._alone.update(
            (seed, nodes) for seed, nodes in regions.items() if self._products.go_back(seed, nodes)
        )
        candidates = {seed: regions[seed] for seed in regions.keys() & self._alone.keys()}
        parts = {seed for seed in candidates if _is_part(seed, candidates)}
        for seed in sorted(
            candidates,
            key=lambda seed: (
                seed in parts,
                self._is_weight(seed, regions[seed]),
                -len(regions[seed]),
                seed,
            ),
        ):
            region = self._with(seed, regions[seed], region)
        return region

    def _with(self, seed: Port, own: Set[str], region: Set[str]) -> Set[str]:
        """Choose a seed if it leads to more than those that are chosen; return what all lead to."""
        if own <= region:
            return region
        together = self._multiples.of([*self._chosen, seed])
        if region < together:
            self._chosen = [*self._chosen, seed]
            return together
        if self._is_inner(seed, own - region):
            self._chosen = [*self._chosen, seed]
            self._inner.add(seed)
            return region | own
        return region

    def _is_weight(self, seed: Port, region: AbstractSet[str]) -> bool:
        """Whether some consumers of ones return no multiple of them.

        For example a sum of weights and an epsilon: a seed only has gradients among its
        descendants.
        """
        readers = (consumer.node for consumer in self._view.consumers(seed.node))
        return any(
            name in self._graph.needed
            and name not in region
            and self._graph.floats.carries(Port(name, 0))
            for name in readers
        )

    def _add_given(self, regions: Dict[Port, Set[str]], left: Set[str]) -> None:
        """Choose the user's own values as seeds of the remaining gradients, most frequent first."""
        for seed, nodes in sorted(
            regions.items(), key=lambda item: (-len(item[1] & left), -len(item[1]), item[0])
        ):
            if nodes & left and self._products.go_back(seed, nodes):
                self._alone[seed] = nodes
                self._chosen, left = [*self._chosen, seed], left - nodes

    def _is_inner(self, seed: Port, own: AbstractSet[str]) -> bool:
        """Whether one call's gradient code is differentiated by another's.

        Their common nodes multiply values of both.
        """
        return self._products.go_back(seed, own) and own.isdisjoint(
            self._view.descendants({seed.node for seed in self._chosen}, control=False)
        )

    def _call(self, seeds: Sequence[Port]) -> Discovered:
        everything = self._graph.place.keys()
        region = self._multiples.of(seeds, everything)
        others = {*self._chosen} - self._inner - {*seeds}
        outside: Set[str] = set().union(
            *(self._multiples.of([other], everything) for other in others)
        )
        if self._inner.issuperset(seeds):
            region -= outside
        nodes = self._extent.nodes(seeds, region, outside)
        whole = nodes | self._extent.for_it_alone(nodes, seeds)
        backward = Backward(
            self._view,
            self._graph.order,
            whole,
            nodes,
            seeds,
            outside - nodes,
            self._graph.floats.carries,
        )
        return Discovered(whole, tuple(seeds), differentiated_nodes(backward))

    def _is_source(self, name: str) -> bool:
        """Whether a node may be the user's own `grad_ys`."""
        return (
            not self._graph.carried(name)
            and self._graph.floats.carries(Port(name, 0))
            and self._graph.op(name) not in VARIABLE_OPS
        )

    def _is_ones(self, name: str) -> bool:
        node, view = self._view.nodes[name], self._view
        if not self._graph.floats.carries(Port(name, 0)) or not view.consumers(name):
            return False
        if node.op == "Fill":
            return all_equal(view.nodes[view.inputs(name)[1].node], 1)
        fills = all(self._graph.op(c.node) == "Fill" for c in view.consumers(name))
        return node.op == "OnesLike" or (not fills and all_equal(node, 1))


def _is_part(seed: Port, regions: Mapping[Port, AbstractSet[str]]) -> bool:
    """Whether all descendants of ones also descend from other seeds with more descendants.

    Such ones multiply gradients of several calls.
    """
    others = [
        nodes for other, nodes in regions.items() if other != seed and not nodes <= regions[seed]
    ]
    return len(others) > 1 and regions[seed] <= set().union(*others)


def _overlapping(seeds: Sequence[Port], regions: Dict[Port, Set[str]]) -> Iterator[List[Port]]:
    """Groups of seeds with common descendants."""
    if not seeds:
        return
    pairs = [(place, place) for place in range(len(seeds))]
    first: Dict[str, int] = {}  # the first seed that leads to a node
    for place, seed in enumerate(seeds):
        pairs += {(first.setdefault(name, place), place) for name in regions[seed]}
    ends = np.array(pairs, int).T
    count, group = connected_components(
        coo_matrix((np.ones(len(pairs)), ends), (len(seeds), len(seeds)))
    )
    for number in range(count):
        yield [seed for place, seed in enumerate(seeds) if group[place] == number]
