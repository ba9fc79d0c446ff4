"""Steps inside a while loop of TensorFlow 1: one iteration as a graph without a cycle.

Its losses are found like those of the main graph.

1. Within the loop and those around it, Enter, NextIteration and Exit pass their input on, and a
   Merge takes the value from outside.
2. An iteration runs as a whole: a node that waits for the inputs of the next one represents that.
3. A loop variable orders the updates if each precedes its next value and the loop's condition reads
   it: nothing in the next iteration then starts before. parallel_iterations=1 orders them too.
   Inserted nodes wait for the start of an iteration, and thus read an adapted scale.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.frames import Frames
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import MERGES, NEXT_ITERATIONS
from graphmp.scaling.losses.training_graph import TrainingGraph

_RUNS = "graphmp_runs"
_HANDS_ON = {
    "Enter": "Identity",
    "RefEnter": "RefIdentity",
    "NextIteration": "Identity",
    "RefNextIteration": "RefIdentity",
    "Exit": "Identity",
    "RefExit": "RefIdentity",
}
Path = Tuple[str, ...]


class Iteration(NamedTuple):
    """One iteration of a loop.

    Attributes:
        path: its frames.
        meta_graph: the whole graph, with the loop and those around it reduced to one iteration.
        variables: of each of these loops, outermost first: the NextIteration of each loop
            variable's Merge.
    """

    path: Path
    meta_graph: tf.MetaGraphDef
    variables: List[Dict[str, str]]


def iteration(meta_graph: tf.MetaGraphDef, frames: Frames, path: Path) -> Iteration:
    """A copy of the main graph with one loop, and those around it, reduced to one iteration."""
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    levels = {path[: depth + 1]: depth for depth in range(len(path))}
    around = {
        node.name: levels[frames[node.name]]
        for node in copy.graph_def.node
        if frames.get(node.name) in levels
    }
    again = {
        node.name
        for node in copy.graph_def.node
        if node.op in NEXT_ITERATIONS and node.name in around
    }
    variables: List[Dict[str, str]] = [{} for _ in path]
    for node in copy.graph_def.node:
        if node.name not in around:
            continue
        back = [text for text in node.input if text.split(":")[0] in again]
        if node.op in MERGES and back:
            variables[around[node.name]][node.name] = back[0].split(":")[0]
            node.input.remove(back[0])
            node.attr["N"].i = len([text for text in node.input if not text.startswith("^")])
    for node in copy.graph_def.node:
        if node.name in around and node.op in _HANDS_ON:
            node.op = _HANDS_ON[node.op]
    copy.graph_def.node.add(name=_RUNS, op="NoOp").input.extend(
        "^" + name for name in sorted(again)
    )
    return Iteration(path, copy, variables)


def pivot(graph: TrainingGraph, loop: Iteration, writes: AbstractSet[str]) -> Optional[str]:
    """A node of the body that starts only after the previous iteration's writes; None if unordered.

    A loop around it has written in an iteration once the loop in it has ended by its condition.

    Args:
        graph: the whole graph.
        loop: one iteration.
        writes: the writes.
    """
    view = GraphView(loop.meta_graph.graph_def)
    paths = [loop.path[: depth + 1] for depth in range(len(loop.path))]
    conditions = [graph.loop_conditions[path] for path in paths]
    last = [*({condition} for condition in conditions[1:]), writes]
    start: Optional[str] = None
    for depth, frame in enumerate(loop.path):
        awaited = last[depth] if graph.parallel_iterations[frame] > 1 else frozenset()
        found = _starts(view, loop.variables[depth], conditions[depth], awaited)
        around = set(conditions[max(depth - 1, 0) : depth])
        start = next((name for name in found if around <= view.ancestors([name])), None)
        if start is None:
            return None
    return start


def _starts(
    view: GraphView, variables: Mapping[str, str], condition: str, awaited: AbstractSet[str]
) -> Iterator[str]:
    """The starts of a loop's iterations that wait for nodes of the previous one."""
    for merge, following in variables.items():
        if awaited and not (
            awaited <= view.ancestors([following]) and merge in view.ancestors([condition])
        ):
            continue
        for switch in view.consumers(merge):
            if switch.slot == 0 and Port(condition, 0) in view.inputs(switch.node)[1:]:
                yield from (
                    c.node
                    for c in view.consumers(switch.node)
                    if c.output == 1 and view.nodes[c.node].op == "Identity"
                )
