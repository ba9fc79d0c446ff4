"""While loops of TensorFlow 1: the frames and the loop depth of each node."""

from __future__ import annotations

import collections
from typing import Deque, Dict, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView
from graphmp.once import remembered
from graphmp.policy.op_sets import ENTERS, EXITS

Frames = Dict[str, Tuple[str, ...]]


def is_invariant(node: tf.NodeDef) -> bool:
    """Whether a node brings a constant value into a loop."""
    return node.op == "Enter" and "is_constant" in node.attr and bool(node.attr["is_constant"].b)


@remembered
def frames(view: GraphView) -> Frames:
    """The while frames of each node, outermost first.

    An Enter runs in the frame that it enters, an Exit in the one it leaves. All inputs of a node
    are in one frame, so that the first one determines it. Empty for a graph without loops.
    """
    if not any(node.op in ENTERS for node in view.nodes.values()):
        return {}
    inside: Frames = {}
    waiting: Deque[Tuple[str, Tuple[str, ...]]] = collections.deque(
        (n, ()) for n in view.nodes if not view.inputs(n) and not view.controls(n)
    )
    while waiting:
        name, frame = waiting.popleft()
        if name in inside:
            continue
        node = view.nodes[name]
        inside[name] = frame + (_frame_entered(node),) if node.op in ENTERS else frame
        result = inside[name][:-1] if node.op in EXITS else inside[name]
        readers = [consumer.node for consumer in view.consumers(name)] + list(
            view.control_consumers(name)
        )
        waiting.extend((reader, result) for reader in readers if reader not in inside)
    return inside


def outputs_frame(view: GraphView, name: str) -> Tuple[str, ...]:
    """The frames of a node's outputs, outermost first; an Exit's are those around its loop."""
    inside = frames(view).get(name, ())
    return inside[:-1] if view.nodes[name].op in EXITS else inside


def _frame_entered(node: tf.NodeDef) -> str:
    """Looking up a missing key in a protobuf map would add it."""
    return (
        str(node.attr["frame_name"].s.decode("utf-8", "replace"))
        if "frame_name" in node.attr
        else ""
    )


def loop_depths(view: GraphView) -> Dict[str, int]:
    """The number of while loops that contain the outputs of each node."""
    return {name: len(outputs_frame(view, name)) for name in frames(view)}


def parallel_iterations(node: tf.NodeDef) -> int:
    """The number of parallel iterations of the loop that an Enter enters.

    Looking up a missing key in a protobuf map would add it.
    """
    return (
        int(node.attr["parallel_iterations"].i) if "parallel_iterations" in node.attr else 10
    )  # the default in the op's definition
