"""Nodes that came after a conversion: those that depend on what it cloned are cloned too when they are first fetched.

They stay float32 and read the clones in the dtypes of the originals, so that a summary of the loss that is made late shows the loss
that is trained.
"""

from __future__ import annotations

from typing import Any, Callable, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import ancestors
from graphmp.graph.structure.view import GraphView


class Later:
    """Nodes that some ops depend on and a conversion didn't know.

    Attributes:
        view: the later nodes, and the known ones that they read without these's own inputs.
        known: names of the latter.
    """

    def __init__(self, ops: List[Any], is_known: Callable[[Any], bool]):
        """Walks back from `ops`, the ops of a live graph, up to the known ones."""
        found = ancestors(ops, stop=is_known)
        graph_def = tf.GraphDef()
        self.known: Set[str] = {op.name for op in found if is_known(op)}
        for op in found:
            node = graph_def.node.add()
            node.CopyFrom(op.node_def)
            if op.name in self.known:
                del node.input[:]
        self.view = GraphView(graph_def)
