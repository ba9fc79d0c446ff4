"""What TensorFlow computes in a step."""

from __future__ import annotations

from typing import Dict, Iterable, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView
from graphmp.tf_hooks.op_defs import OpDefs


def computed(meta_graph: tf.MetaGraphDef, targets: Iterable[str]) -> Set[str]:
    """The nodes whose values a step needs, or that have effects; unknown targets are left out.

    What a node only waits for by a control edge is not computed if it has no effects: Grappler
    (dependency_optimizer.cc) replaces it by a no-op that waits for the same.
    """
    view, op_defs = GraphView(meta_graph.graph_def), OpDefs(meta_graph)

    def has_effects(name: str) -> bool:
        definition = op_defs.get(view.nodes[name].op)
        return definition is None or (
            definition.is_stateful or any(each.is_ref for each in definition.input_arg)
        )

    needed: Dict[str, bool] = {}  # False: waited for
    waiting = [(name, True) for name in targets if name in view.nodes]
    while waiting:
        name, value = waiting.pop()
        value = value or has_effects(name)
        if needed.get(name) in (True, value):
            continue
        needed[name] = value
        waiting += [(port.node, value) for port in view.inputs(name)]
        waiting += [(control, False) for control in view.controls(name)]
    return {name for name, value in needed.items() if value}
