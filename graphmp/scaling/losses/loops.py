"""Steps inside a while loop of TensorFlow 1: one iteration as a graph without a cycle, in which losses are found as in the main graph.

1. Within the loop, Enter, NextIteration and Exit hand on what they read, and a Merge takes the value that comes from outside.
2. An iteration runs as a whole: a node that waits for what the next one is given stands for that.
3. A loop variable orders the updates where each is waited for before its next value, and where the loop's condition reads it: nothing in
   the next iteration starts before. What is put into the loop waits for that variable, and so reads a scale that has been adapted.
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
        path: the frames that it runs in.
        meta_graph: the whole graph, in which the loop is run through once.
        variables: for each Merge of a loop variable its NextIteration.
    """

    path: Path
    meta_graph: tf.MetaGraphDef
    variables: Dict[str, str]


def iteration(meta_graph: tf.MetaGraphDef, frames: Frames, path: Path) -> Iteration:
    """A loop of the main graph, run through once. The graph is not changed."""
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
    """A node of the body that starts only once the writes of the iteration before are done; None where nothing orders them.

    Args:
        view: the nodes of `loop`.
        loop: one iteration.
        writes: what is to be done before.
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
