"""Ops that magnify rounding: what they read stays float32, up to the layer that gives it.

A sine of 300 radians is another number if its argument is rounded to 2^-11 of its size, and so is
the inverse of a matrix that is nearly singular. From what such an op reads (`policy/traits.txt`) a
walk goes upstream. What steers an op has rules of its own, by which its layer is float32, too
(`positions.py`).

1. A layer, an allow op that reads both learned weights and something else (`learned.py`), stays
   half and ends the walk: its result is learned as it is rounded. So do its bias and the clear ops
   behind it. Where a matrix is factored or inverted, weights that are computed make no layer: they
   are places of a kernel over its length scales.
2. Any other allow op is float32, and the walk goes on: products of positions with frequencies or a
   camera's matrix, of a kernel, of a covariance.
3. A bounded op is float32 and ends the walk. Any other op is float32, and the walk goes on.

From a logarithm the walk keeps products alone: a power spectrum times a filter bank, whose small
values half precision takes for zero and whose large ones for infinite. It ends at an exponential,
for what that reads is of no such range. What no product leads to, such as a dropout's mask, is left
to the other rules.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Optional, Set, Tuple

from graphmp.graph.state.state import variable_behind
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import INT32, INT64
from graphmp.policy.op_sets import SUMS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import CLEAR, MAGNIFIED, Reason
from graphmp.policy.traits import (
    BIAS_ADDS,
    BOUNDED,
    FACTORS,
    FORGETS_SIZES,
    FORGETS_VALUES,
    MAGNIFIES,
    NEEDS_RANGE,
)
from graphmp.rewrite.range_guard.learned import Layers
from graphmp.rewrite.units import TypedGraph

_EXPONENTIALS = {"Exp", "Expm1"}
_WORDS = ("%s (%s) magnifies its rounding", "%s (%s) needs its range")


def magnified(
    graph: TypedGraph, policy: Policy, trainable: Optional[AbstractSet[str]] = None
) -> Dict[int, Reason]:
    """Units whose rounding an op magnifies, with reasons.

    Args:
        graph: a body.
        policy: the op lists.
        trainable: the trainable variables; None if unknown, then any variable counts as one.
    """
    found: Dict[int, Reason] = {}
    seen: Set[str] = set()
    layers = [Layers(graph, trainable, changed) for changed in (False, True)]
    # The logarithm in a power's gradient by its constant exponent is computed, but not used.
    used = [name for name in graph.view.nodes if name not in graph.unread]
    for name in sorted(used, key=lambda n: _turn(graph.view.nodes[n].op)):
        waiting, (is_range, no_matrix) = _magnifies(graph, name), _turn(graph.view.nodes[name].op)
        words = _WORDS[is_range] % (name, graph.view.nodes[name].op)
        while waiting:
            port = waiting.pop()
            unit, op = graph.writer(port), graph.view.nodes[port.node].op
            if unit < 0 or port.node in seen or op in FORGETS_VALUES | FORGETS_SIZES:
                continue
            seen.add(port.node)
            if _is_of_layer(graph, policy, port.node, layers[no_matrix]):
                continue
            if op in policy.allow or not is_range:
                found[unit] = Reason(MAGNIFIED, words, name)
            if op not in BOUNDED and not (is_range and op in _EXPONENTIALS):
                waiting.extend(graph.view.inputs(port.node))
    behind = _behind_products(graph, policy) if found else ()
    return {unit: why for unit, why in found.items() if graph.units[unit].node in behind}


def _behind_products(graph: TypedGraph, policy: Policy) -> AbstractSet[str]:
    """Allow ops, and what is computed from their values: the rest is float32 by itself."""
    nodes = graph.view.nodes
    products = [name for name, node in nodes.items() if node.op in policy.allow]
    return graph.view.followed(products, lambda name: nodes[name].op not in FORGETS_VALUES)


def _turn(op: str) -> Tuple[bool, bool]:
    """Whether an op needs range, and whether it factors no matrix; what keeps most goes first."""
    return op in NEEDS_RANGE, op not in FACTORS


def _magnifies(graph: TypedGraph, name: str) -> List[Port]:
    """The tensors whose rounding a node magnifies."""
    node = graph.view.nodes[name]
    is_whole = node.op == "Cast" and node.attr["DstT"].type in (INT32, INT64)
    is_one = is_whole or node.op in FACTORS | MAGNIFIES | NEEDS_RANGE
    return list(graph.view.inputs(name)) if is_one else []


def _is_of_layer(graph: TypedGraph, policy: Policy, name: str, layers: Layers) -> bool:
    """Whether a node is a layer, or only adds its bias, bends or moves what a layer gives."""
    while True:
        op = graph.view.nodes[name].op
        if op in policy.allow:
            return layers.is_layer(name)
        read = [port for port in graph.view.inputs(name) if graph.writer(port) >= 0]
        others = [port for port in read if not variable_behind(graph.view, port.node)]
        adds_bias = op in BIAS_ADDS or (op in SUMS and len(others) < len(read))
        if len(others) != 1 or not (adds_bias or policy.category(op) == CLEAR):
            return False
        name = others[0].node
