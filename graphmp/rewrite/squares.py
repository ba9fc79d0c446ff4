"""Products of a tensor with its transpose, which add up squares: float32, as Square and Sum are.

The diagonal of a Gram matrix `f^T f` or a covariance is the sum of squares of many values. Of 1,024
places of a feature map float16 holds it if the values are below 8.
"""

from __future__ import annotations

from typing import Dict, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from graphmp.policy.policy import Policy
from graphmp.policy.reason import DENY, Reason
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.rewrite.units import TypedGraph

_TRANSPOSES = {"ConjugateTranspose", "Transpose"}
_FLAGS = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))


def sums_of_squares(graph: TypedGraph, policy: Policy) -> Dict[int, Reason]:
    """Units of allow ops of the forward pass that multiply a tensor by its transpose: reasons."""
    found: Dict[int, Reason] = {}
    for name, node in graph.view.nodes.items():
        if node.op not in policy.allow or name in graph.gradients:
            continue
        read = [_source(graph, port) for port in graph.view.inputs(name)]
        if len(read) == 2 and read[0][0] == read[1][0] and _adds_squares(node, read):
            words = "%s of %s with itself adds up squares" % (node.op, read[0][0].node)
            found.update((unit, Reason(DENY, words)) for unit in graph.units_of(name))
    return found


def _source(graph: TypedGraph, port: Port) -> Tuple[Port, int]:
    """The tensor that a tensor is but for its order, and the transposes between them."""
    transposes = 0
    while True:
        port = graph.view.behind(port, MOVES_NOTHING)
        if graph.view.nodes[port.node].op not in _TRANSPOSES:
            return port, transposes
        transposes += 1
        port = graph.view.inputs(port.node)[0]


def _adds_squares(node: tf.NodeDef, read: Sequence[Tuple[Port, int]]) -> bool:
    """Whether a product of a tensor with itself adds up over the same axis of both."""
    if "equation" in node.attr:
        operands, _, result = node.attr["equation"].s.decode().replace(" ", "").partition("->")
        left, _, right = operands.partition(",")
        added = set(left) & set(right) - set(result)
        return all(left.index(axis) == right.index(axis) for axis in added)
    turned = [any(flag in node.attr and node.attr[flag].b for flag in flags) for flags in _FLAGS]
    return (sum(turned) + read[0][1] + read[1][1]) % 2 == 1
