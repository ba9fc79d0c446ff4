"""Products of a tensor with its transpose, which add up squares: float32, as Square and Sum are.

The diagonal of a Gram matrix `f^T f` or a covariance is the sum of squares of many values. Of 1,024
places of a feature map float16 holds it if the values are below 8. Scores `x x^T` add up over the
features alone, as layers do: those that only a softmax or the next product reads may be half.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterator, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from graphmp.policy.policy import Policy
from graphmp.policy.reason import CLEAR, DENY, INFER, Reason
from graphmp.policy.traits import (
    BOUNDED,
    DISCONTINUOUS,
    FORGETS_VALUES,
    MOVES_NOTHING,
    WEIGHTS_OF_MEAN,
)
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
        if len(read) != 2 or read[0][0] != read[1][0]:
            continue
        axes = _added_axes(node, read)
        if axes and not (axes == {1} and _are_scores(graph, policy, name)):
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


def _added_axes(node: tf.NodeDef, read: Sequence[Tuple[Port, int]]) -> FrozenSet[int]:
    """The axes of a tensor over which its product with itself adds up squares; 1 is the last.

    Empty if each side adds up over an axis of its own.
    """
    if "equation" in node.attr:
        operands, _, result = node.attr["equation"].s.decode().replace(" ", "").partition("->")
        left, _, right = operands.partition(",")
        added = set(left) & set(right) - set(result)
        is_same = all(left.index(axis) == right.index(axis) for axis in added)
        return frozenset(len(left) - left.index(axis) for axis in added) if is_same else frozenset()
    turned = [any(flag in node.attr and node.attr[flag].b for flag in flags) for flags in _FLAGS]
    left_axis, right_axis = turned[0] + read[0][1], turned[1] + read[1][1] + 1
    return frozenset((1 + left_axis % 2,)) if (left_axis - right_axis) % 2 == 0 else frozenset()


def _are_scores(graph: TypedGraph, policy: Policy, name: str) -> bool:
    """Whether only allow ops and ops that forget large values read a product in the forward pass.

    Infer and clear ops may stand between, such as a mask and a division.
    """
    view, ends = graph.view, policy.allow | BOUNDED | WEIGHTS_OF_MEAN

    def is_passed(reached: str) -> bool:
        op = view.nodes[reached].op
        passes = policy.category(op) in (INFER, CLEAR) and op not in ends | DISCONTINUOUS
        return reached == name or (passes and reached not in graph.gradients)

    def readers(reached: str) -> Iterator[str]:
        for reader, *_ in view.consumers(reached):
            if reader not in graph.gradients and view.nodes[reader].op not in FORGETS_VALUES:
                yield reader

    for passed in view.followed([name], is_passed):
        after = list(readers(passed))
        if not after or any(not is_passed(r) and view.nodes[r].op not in ends for r in after):
            return False
    return True
