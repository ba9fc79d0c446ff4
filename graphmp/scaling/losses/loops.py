"""Steps inside a while loop of TensorFlow 1: one iteration as a graph without a cycle.

Its losses are found like those of the main graph.

1. Within the loop, Enter, NextIteration and Exit pass their input on, and a Merge takes the value
   from outside.
2. An iteration runs as a whole: a node that waits for the inputs of the next one represents that.
3. A loop variable orders the updates if each precedes its next value and the loop's condition reads
   it: nothing in the next iteration then starts before. Inserted nodes wait for that variable, and
   thus read an adapted scale.
"""

from __future__ import annotations

from typing import Dict, Iterable, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.frames import Frames
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import MERGES, NEXT_ITERATIONS

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
        meta_graph: the whole graph, with the loop reduced to one iteration.
        variables: the NextIteration of each loop variable's Merge.
    """

    path: Path
    meta_graph: tf.MetaGraphDef
    variables: Dict[str, str]


def iteration(meta_graph: tf.MetaGraphDef, frames: Frames, path: Path) -> Iteration:
    """A copy of the main graph with one loop reduced to a single iteration."""
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    again = {
        node.name
        for node in copy.graph_def.node
        if node.op in NEXT_ITERATIONS and frames.get(node.name) == path
    }
    variables: Dict[str, str] = {}
    for node in copy.graph_def.node:
        if frames.get(node.name) != path:
            continue
        back = [text for text in node.input if text.split(":")[0] in again]
        if node.op in MERGES and back:
            variables[node.name] = back[0].split(":")[0]
            node.input.remove(back[0])
            node.attr["N"].i = len([text for text in node.input if not text.startswith("^")])
    for node in copy.graph_def.node:
        if frames.get(node.name) == path and node.op in _HANDS_ON:
            node.op = _HANDS_ON[node.op]
    copy.graph_def.node.add(name=_RUNS, op="NoOp").input.extend(
        "^" + name for name in sorted(again)
    )
    return Iteration(path, copy, variables)


def pivot(view: GraphView, loop: Iteration, writes: Iterable[str]) -> Optional[str]:
    """A node of the body that starts only after the previous iteration's writes; None if unordered.

    Args:
        view: the nodes of `loop`.
        loop: one iteration.
        writes: the writes.
    """
    writes = set(writes)
    conditions = [name for name, node in view.nodes.items() if node.op == "LoopCond"]
    for merge, following in loop.variables.items():
        if not writes <= view.ancestors([following]):
            continue
        switches = [
            c.node
            for c in view.consumers(merge)
            if c.slot == 0 and view.inputs(c.node)[1:] and view.inputs(c.node)[1].node in conditions
        ]
        asked = {view.inputs(switch)[1].node for switch in switches}
        starts = [
            c.node
            for switch in switches
            for c in view.consumers(switch)
            if c.output == 1 and view.nodes[c.node].op == "Identity"
        ]
        if starts and merge in view.ancestors(asked):
            return starts[0]
    return None
