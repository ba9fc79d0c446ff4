"""Control flow of TensorFlow 1: how deep each node lies in while loops, and what a conditional may leave out."""

from __future__ import annotations

import collections
from typing import Deque, Dict, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.view import GraphView

ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))


def is_invariant(node: tf.NodeDef) -> bool:
    """Whether a node brings a value that doesn't change into a loop."""
    return node.op == "Enter" and "is_constant" in node.attr and bool(node.attr["is_constant"].b)


def loop_depths(view: GraphView) -> Dict[str, int]:
    """How many while loops the outputs of each node lie in. All inputs of a node lie in one frame, so that the first one seen tells."""
    if not any(node.op in ENTERS for node in view.nodes.values()):
        return {}
    depths: Dict[str, int] = {}
    waiting: Deque[str] = collections.deque()

    def reach(name: str, depth: int) -> None:
        if name not in depths:
            op = view.nodes[name].op
            depths[name] = depth + (op in ENTERS) - (op in EXITS)
            waiting.append(name)

    for name in view.nodes:
        if not view.inputs(name) and not view.controls(name):
            reach(name, 0)
    while waiting:
        name = waiting.popleft()
        for consumer in view.consumers(name):
            reach(consumer.node, depths[name])
        for consumer_name in view.control_consumers(name):
            reach(consumer_name, depths[name])
    return depths


def may_be_dead(view: GraphView) -> Set[str]:
    """Nodes that don't run where a conditional goes the other way: what a Switch leads to, by data or control, up to the Merge."""
    waiting = [c.node for name, node in view.nodes.items() if node.op in ("RefSwitch", "Switch") for c in view.consumers(name)]
    seen: Set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen and view.nodes[name].op not in ("Merge", "RefMerge"):
            seen.add(name)
            waiting.extend(consumer.node for consumer in view.consumers(name))
            waiting.extend(view.control_consumers(name))
    return seen
