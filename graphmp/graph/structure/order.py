"""An order in which a graph's nodes can run."""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Sequence

from graphmp.graph.structure.view import GraphView
from graphmp.once import remembered
from graphmp.policy.op_sets import NEXT_ITERATIONS


def in_order(view: GraphView, nodes: AbstractSet[str]) -> List[str]:
    """The nodes in topological order, by depth, then name; each while loop is traversed once.

    Args:
        view: the graph.
        nodes: the nodes to run, with all that they depend on.
    """
    skipped = {name for name, node in view.nodes.items() if node.op in NEXT_ITERATIONS}
    waits: Dict[str, int] = {}
    after: Dict[str, List[str]] = {}
    for name in nodes:
        before = {port[0] for port in view.inputs(name)}
        before.update(view.controls(name))
        before -= skipped
        waits[name] = len(before)
        for other in before:
            if other in after:
                after[other].append(name)
            else:
                after[other] = [name]
    order: List[str] = []
    wave = sorted([name for name, count in waits.items() if not count])
    while wave:
        order += wave
        ready = []
        for before_it in wave:
            for name in after.get(before_it, ()):
                waits[name] -= 1
                if not waits[name]:
                    ready.append(name)
        wave = sorted(ready)
    return order


@remembered
def whole_order(view: GraphView) -> Sequence[str]:
    """All nodes of a graph in that order, without those of cycles."""
    return in_order(view, view.nodes.keys())
