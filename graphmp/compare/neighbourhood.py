"""The neighbourhood of a node: the nodes that it reads and the nodes that read it."""

from __future__ import annotations

from typing import Dict, List

from graphmp.graph.structure.view import GraphView


def neighbourhood(view: GraphView, node: str, depth: int, most: int) -> Dict[str, int]:
    """Breadth-first from a node against its inputs and along its outputs, control edges included.

    Args:
        view: the graph.
        node: one of its nodes.
        depth: how many edges far.
        most: how many nodes at most, `node` included; the nearest are taken, inputs before outputs.

    Returns:
        The nodes found, nearest first, each with its distance: negative for what `node` depends on,
        0 for itself, positive for what depends on it.
    """
    found = {node: 0}
    fronts = {-1: [node], 1: [node]}
    for distance in range(1, depth + 1):
        for sign, neighbours in ((-1, _before), (1, _after)):
            near = dict.fromkeys(
                other
                for name in fronts[sign]
                for other in neighbours(view, name)
                if other not in found
            )
            fronts[sign] = list(near)[: most - len(found)]
            found.update(dict.fromkeys(fronts[sign], sign * distance))
    return found


def _before(view: GraphView, name: str) -> List[str]:
    return [port.node for port in view.inputs(name)] + list(view.controls(name))


def _after(view: GraphView, name: str) -> List[str]:
    return [consumer.node for consumer in view.consumers(name)] + list(view.control_consumers(name))
