"""Calls of `tf.gradients` that are one loss, with one scale and one flag.

Two calls are joined if

1. a write takes gradients of both (towers, sums of losses);
2. a seed of one is a result of the other (segments differentiated one by one);
3. writes of both are one step: one `apply_gradients`, or one group, waits for some of each. Not for
   two groups in a third: each of those can be run alone. Not if the gradients of one wait for
   writes of the other;
4. one trains nothing itself, and the forward pass of the other uses its result (a step of SAM): an
   overflow appears there. Not if the other differentiates through it: its values are then unscaled
   for every consumer.
"""

from __future__ import annotations

import itertools
from typing import AbstractSet, Dict, Iterator, List, Sequence, Set, Tuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.scaling.losses.gradient_flow import GradientFlow
from graphmp.scaling.losses.model import GradientScope
from graphmp.scaling.losses.training_graph import TrainingGraph

Pair = Tuple[int, int]


def joint(
    graph: TrainingGraph, scopes: Sequence[GradientScope], flows: Sequence[GradientFlow]
) -> List[List[int]]:
    """Indices of the scopes that train, grouped by loss."""
    if not scopes:
        return []
    pairs = [
        *_sharing(flows),
        *_seeded(graph, scopes),
        *_one_step(graph, flows),
        *_ahead(graph, scopes, flows),
    ]
    ends = np.array(pairs, int).reshape(-1, 2).T
    count, group = connected_components(
        coo_matrix((np.ones(len(pairs)), ends), (len(scopes), len(scopes))), directed=False
    )
    members = [
        [number for number in range(len(scopes)) if group[number] == each] for each in range(count)
    ]
    return [numbers for numbers in members if any(flows[number].trained for number in numbers)]


def _sharing(flows: Sequence[GradientFlow]) -> Iterator[Pair]:
    first: Dict[str, int] = {}
    for number, flow in enumerate(flows):
        for write in flow.trained:
            yield first.setdefault(write, number), number


def _seeded(graph: TrainingGraph, scopes: Sequence[GradientScope]) -> Iterator[Pair]:
    owner = {name: number for number, scope in enumerate(scopes) for name in scope.degrees.of}
    for number, scope in enumerate(scopes):
        for other in _made_of(graph, scope.seeds, owner, number):
            yield other, number


def _made_of(
    graph: TrainingGraph, seeds: Sequence[Port], owner: Dict[str, int], number: int
) -> Set[int]:
    """The scopes from which seeds are computed, by floating-point numbers."""

    def before(port: Port) -> Sequence[Port]:
        ends = owner.get(port.node, number) != number or graph.state.is_write(port.node)
        return () if ends else graph.view.inputs(port.node)

    found = reached(seeds, before, graph.is_float) if len(set(owner.values())) > 1 else ()
    return {owner[port.node] for port in found if port.node in owner} - {number}


def _one_step(graph: TrainingGraph, flows: Sequence[GradientFlow]) -> Iterator[Pair]:
    waits: Dict[str, Dict[int, str]] = {}
    for number, flow in enumerate(flows):
        for write in flow.direct if flow.trained else ():
            for group in _groups(graph, write):
                waits.setdefault(group, {})[number] = write
    pairs = {
        pair for numbers in waits.values() for pair in itertools.combinations(sorted(numbers), 2)
    }
    before = {
        number: graph.view.ancestors(port.node for port in flows[number].gradients)
        for number in sorted({number for pair in pairs for number in pair})
    }
    for one, other in sorted(pairs):
        if before[one].isdisjoint(flows[other].direct) and before[other].isdisjoint(
            flows[one].direct
        ):
            yield one, other


def _groups(graph: TrainingGraph, write: str) -> Iterator[str]:
    """Nodes that wait for a write; for the per-device parts of `tf.group`, the group."""
    for name in graph.view.control_consumers(write):
        yield name
        if graph.view.nodes[name].op == "NoOp" and graph.view.nodes[name].device:
            yield from (
                whole
                for whole in graph.view.control_consumers(name)
                if name.startswith(whole + "/")
            )


def _ahead(
    graph: TrainingGraph, scopes: Sequence[GradientScope], flows: Sequence[GradientFlow]
) -> Iterator[Pair]:
    reading = {name: number for number, scope in enumerate(scopes) for name in scope.nodes}
    for number, scope in enumerate(scopes):
        if flows[number].trained or not scope.leaving or not any(flow.trained for flow in flows):
            continue
        readers = {
            c.node
            for port in scope.leaving
            for c in graph.view.consumers(port.node)
            if c.output == port.output
        }
        if reading.keys() & readers or _passed_on(graph, scope):
            continue
        after = graph.view.followed(readers, lambda name: name not in graph.gradients)
        reached = {
            reading[c.node]
            for name in after
            for c in graph.view.consumers(name)
            if c.node in reading
        }
        yield from ((number, other) for other in sorted(reached) if flows[other].trained)


def _passed_on(graph: TrainingGraph, scope: GradientScope) -> bool:
    """Whether other gradient code reads an intermediate result of this one."""
    inner: AbstractSet[str] = graph.gradients - scope.nodes
    return any(c.node in inner for name in scope.nodes for c in graph.view.consumers(name))
