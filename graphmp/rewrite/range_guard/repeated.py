"""Constants near 1, and sums that come again: half precision has no digits for the difference.

1. bfloat16 rounds 0.999 to 1 and 0.99 to 0.988: what decays by it stands still, or decays faster.
   Where such a product leads to another one, in a loop or an unrolled one, it stays float32 if
   rounding changes the constant's distance from 1 by more than 2%; anywhere, if by more than 10%
   (a clip at 1 - 1e-7).
2. What is compared with such a constant is float32 from the last matmul or convolution.
3. A sum over the iterations of a loop, such as `a + x` that is the next `a`: beside a large sum a
   term of half precision is nothing. So it is with what a loop adds to a gradient.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Iterator, List, NamedTuple, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.values import float32_values
from graphmp.graph.structure.view import Consumer
from graphmp.policy.op_sets import COMPARISONS, NEXT_ITERATIONS, SUMS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import RANGE_GUARD, Reason
from graphmp.policy.traits import (
    BOUNDED,
    DECIDES_NEAR_ONE,
    FORGETS_VALUES,
    KEEPS_VALUES,
    MOVES_NOTHING,
)
from graphmp.rewrite.range_guard.origins import Origins
from graphmp.rewrite.units import TypedGraph

_REPEATED, _ALWAYS = 0.02, 0.1  # of the distance from 1, by which rounding changes it
_MOST = 1000  # nodes on the way from one product to the next
_SUMS = SUMS | {"Sub"}
_ACCUMULATES = Reason(RANGE_GUARD, "adds up over the iterations of a loop")


class _Constant(NamedTuple):
    """A constant near 1, the change of its distance from 1, and what reads it."""

    reason: Reason
    change: float
    users: List[Consumer]


def repeated(
    graph: TypedGraph, policy: Policy, computed: AbstractSet[str], compute_dtype: str
) -> Iterator[Tuple[int, Reason]]:
    """Units of products and sums that must not be rounded each time, with reasons.

    `computed` are the nodes behind matmuls and convolutions.
    """
    near_one = list(_near_one(graph, computed, compute_dtype))
    products = {
        user.node
        for constant in near_one
        for user in constant.users
        if graph.view.nodes[user.node].op in DECIDES_NEAR_ONE
    }
    for constant in near_one:
        yield from _multiplied(graph, policy, constant, products)
        yield from _compared(graph, policy, constant)
    if any(node.op in NEXT_ITERATIONS for node in graph.view.nodes.values()):
        yield from _sums(graph, computed)


def _near_one(
    graph: TypedGraph, computed: AbstractSet[str], compute_dtype: str
) -> Iterator[_Constant]:
    for name, node in graph.view.nodes.items():
        if node.op != "Const" or not graph.units_of(name):
            continue
        values = float32_values(node)
        change = _change(values, compute_dtype) if values.size else 0.0
        if change > _REPEATED:
            words = "%s holds %.7g, whose distance from 1 %s changes by %.0f%%"
            text = words % (name, values[0], compute_dtype, 100 * change)
            users = [user for user in _users(graph, name) if user.node in computed]
            yield _Constant(Reason(RANGE_GUARD, text, name), change, users)


def _change(values: Any, compute_dtype: str) -> float:
    """By how much rounding changes the distance from 1 of constants near 1; 0 for others."""
    if not np.abs(values - 1).max() < 0.5:
        return 0.0
    distance = np.abs(values.astype(np.float64) - 1)
    half = tf.as_dtype(compute_dtype).as_numpy_dtype
    rounding = np.abs(values.astype(half).astype(np.float64) - values)
    return float((rounding[distance > 0] / distance[distance > 0]).max(initial=0))


def _users(graph: TypedGraph, constant: str) -> List[Consumer]:
    """The readers of a constant, and of what passes it on."""
    found: List[Consumer] = []
    seen: Set[str] = {constant}
    waiting = [constant]
    while waiting:
        for consumer in graph.view.consumers(waiting.pop()):
            op = graph.view.nodes[consumer.node].op
            if graph.reader(consumer) < 0 or op in FORGETS_VALUES:
                continue
            found.append(consumer)
            if op in KEEPS_VALUES and consumer.node not in seen:
                seen.add(consumer.node)
                waiting.append(consumer.node)
    return found


def _multiplied(
    graph: TypedGraph, policy: Policy, constant: _Constant, products: AbstractSet[str]
) -> Iterator[Tuple[int, Reason]]:
    """Rule 1, for products, quotients and clips."""
    own = [user.node for user in constant.users if user.node in products]
    if constant.change > _ALWAYS or any(_again(graph, policy, each, products) for each in own):
        for user in constant.users if own else ():
            if user.node in products or graph.view.nodes[user.node].op in KEEPS_VALUES:
                yield graph.reader(user), constant.reason


def _again(graph: TypedGraph, policy: Policy, start: str, products: AbstractSet[str]) -> bool:
    """Whether a product leads to another, or to itself, without a matmul or a bounded op between.

    The gradient of a product is no other.
    """

    def through(name: str) -> bool:
        op = graph.view.nodes[name].op
        is_here = (name in graph.gradients) == (start in graph.gradients)
        return is_here and op not in policy.allow | BOUNDED | FORGETS_VALUES

    return bool(_following(graph, start, through) & products)


def _following(graph: TypedGraph, start: str, through: Callable[[str], bool]) -> Set[str]:
    """Nodes that read a node's float32 values by way of some nodes, itself only in a circle."""
    found: Set[str] = set()
    waiting = [start]
    while waiting and len(found) < _MOST:
        for consumer in graph.view.consumers(waiting.pop()):
            name = consumer.node
            if graph.reader(consumer) >= 0 and name not in found and through(name):
                found.add(name)
                waiting.append(name)
    return found


def _compared(
    graph: TypedGraph, policy: Policy, constant: _Constant
) -> Iterator[Tuple[int, Reason]]:
    """Rule 2, for comparisons of the forward pass."""
    origins = Origins(graph, policy)
    for user in constant.users:
        is_comparison = graph.view.nodes[user.node].op in COMPARISONS
        for port in graph.view.inputs(user.node) if is_comparison else ():
            if user.node not in graph.gradients:
                units = origins.behind(port, to_product=False, scaled=True)
                yield from ((unit, constant.reason) for unit in units)


def _sums(graph: TypedGraph, computed: AbstractSet[str]) -> Iterator[Tuple[int, Reason]]:
    """Rule 3. Of gradients it is what a loop adds to one tensor: selected states are others."""
    for name in graph.view.in_graph_order(computed):
        if graph.view.nodes[name].op in _SUMS and graph.frame(name):
            others = frozenset() if name in graph.gradients else KEEPS_VALUES | _SUMS
            if _comes_back(graph, name, MOVES_NOTHING | others):
                yield from ((unit, _ACCUMULATES) for unit in graph.units_of(name))


def _comes_back(graph: TypedGraph, name: str, passes: AbstractSet[str]) -> bool:
    """Whether a node reads its own result, by way of some ops."""

    def through(each: str) -> bool:
        return each == name or graph.view.nodes[each].op in passes

    return name in _following(graph, name, through)
