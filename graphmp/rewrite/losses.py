"""The gradient code of a training graph: where it starts, what leaves it, and which updates that reaches."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List

import tensorflow.compat.v1 as tf

from graphmp.graph.dtypes import FLOAT32
from graphmp.graph.gradient_code import gradient_scopes
from graphmp.graph.live import writes
from graphmp.graph.view import GraphView


def losses(view: GraphView, gradients: AbstractSet[str]) -> List[Dict[str, Any]]:
    """One row a gradient scope that reaches an update: its seeds, the nodes whose output leaves it, the updates."""
    rows = []
    for scope in sorted(gradient_scopes(view.nodes.keys())):
        inside = {name for name in gradients if name.startswith(scope + "/")} if scope else set(gradients)
        leaving = [n for n in sorted(inside) if any(c.node not in gradients for c in view.consumers(n))]
        updates = sorted(n for n in view.descendants(leaving, control=False) if writes(view.nodes[n].op))
        if updates:
            seeds = sorted(n for n in inside if n.count("/") == scope.count("/") + 1 and _is_seed(view, n))
            rows.append({"gradient_scope": scope, "seeds": seeds, "gradients": leaving, "updates": updates, "scale": ""})
    return rows


def _is_seed(view: GraphView, name: str) -> bool:
    """Whether a leaf of a gradient scope is what gradients start from: ones, or the user's `grad_ys`."""
    node = view.nodes[name]
    if node.op == "Const":
        return _all_ones(node) and any(view.nodes[consumer.node].op != "Fill" for consumer in view.consumers(name))
    if node.op == "Fill":
        return _all_ones(view.nodes[view.inputs(name)[-1].node])
    return node.op == "OnesLike" or name.rsplit("/", 1)[-1].startswith("grad_ys")


def _all_ones(node: tf.NodeDef) -> bool:
    if node.op != "Const" or "value" not in node.attr or node.attr["value"].tensor.dtype != FLOAT32:
        return False
    return bool((tf.make_ndarray(node.attr["value"].tensor) == 1).all())
