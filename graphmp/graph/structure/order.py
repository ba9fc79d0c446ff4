"""An order in which a graph's nodes can run."""

from __future__ import annotations

import itertools
from typing import AbstractSet, Dict, List

from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import NEXT_ITERATIONS


def in_order(view: GraphView, nodes: AbstractSet[str]) -> List[str]:
    """The nodes in topological order, by depth, then name; each while loop is traversed once.

    Args:
        view: the graph.
        nodes: the nodes to run, with all that they depend on.
    """
    waits: Dict[str, int] = {}
    after: Dict[str, List[str]] = {}
    for name in nodes:
        before = {port.node for port in view.inputs(name)} | set(view.controls(name))
        before = {other for other in before if view.nodes[other].op not in NEXT_ITERATIONS}
        waits[name] = len(before)
        for other in before:
            after.setdefault(other, []).append(name)
    order: List[str] = []
    wave = sorted(name for name, count in waits.items() if not count)
    while wave:
        order += wave
        ready = []
        for name in itertools.chain.from_iterable(after.get(name, ()) for name in wave):
            waits[name] -= 1
            if not waits[name]:
                ready.append(name)
        wave = sorted(ready)
    return order
