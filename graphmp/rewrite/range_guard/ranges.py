"""The range guard: constants and counts that half precision can't hold keep ops in float32.

1. A constant with |c| > 65504, or c != 0 and |c| < 2^-24 (float16; bfloat16 has float32's range):
   `Mul(mask, -1e9)`, `Add(x, 1e-12)` stay float32. The constant is followed through ops that pass
   values on. A matmul or convolution is only kept by overflow, or if all nonzero values would
   become zero: a small weight among others does no harm. A multiple of a constant that overflows,
   or a sum with it, may overflow as well: matmuls that read it stay float32, those of gradients
   too. Neither may the reciprocal of a constant divisor be larger: TensorFlow multiplies by it.
2. A count computed from shapes (`Cast(Prod(Shape(x)))`, the divisor of means) may be any size: ops
   that use it stay float32, unless static shapes show that it fits.
3. Nodes that overflowed in an audit (`--ranges`) stay float32, and so do their consumers.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.values import float32_values
from graphmp.policy.dtypes import INT32, INT64
from graphmp.policy.formats import FORMATS
from graphmp.policy.op_sets import SHAPE_OPS, SUMS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import RANGE_GUARD, Reason
from graphmp.policy.traits import DIVIDES_BY_RECIPROCAL, FORGETS_VALUES, KEEPS_VALUES
from graphmp.rewrite.range_guard.counts import count
from graphmp.rewrite.units import TypedGraph

_MOST_ANCESTORS = 200  # a count is computed from fewer


class Misfit(NamedTuple):
    """A constant that half precision can't hold.

    One value that doesn't fit, and whether it spoils matmuls too.
    """

    value: float
    spoils_all: bool


def guarded(
    graph: TypedGraph,
    policy: Policy,
    compute_dtype: str,
    overflowed: AbstractSet[str] = frozenset(),
) -> Dict[int, Reason]:
    """Units that the range guard keeps in float32, with reasons.

    `overflowed` are nodes whose values overflowed in an audit.
    """
    found: Dict[int, Reason] = {}
    followed: Set[str] = set()  # results of constants that overflow: each is followed once
    for name in sorted(overflowed & graph.view.nodes.keys()):
        reason = Reason(RANGE_GUARD, "%s overflowed in an audit" % name, name)
        readers = (graph.reader(consumer) for consumer in graph.view.consumers(name))
        found.update(
            (unit, reason)
            for unit in [*graph.units_of(name), *readers]
            if unit >= 0 and unit not in found
        )
    for name, node in graph.view.nodes.items() if compute_dtype in FORMATS else ():
        if node.op == "Const" and graph.units_of(name):
            fit = misfit(node, compute_dtype)
            if fit is not None:
                words = "%s holds %g, which %s can't" % (name, fit.value, compute_dtype)
                reason = Reason(RANGE_GUARD, words, name)
                units = [*_users(graph, name, policy, fit)]
                if abs(fit.value) > 1:
                    units += _products_of_results(graph, name, policy, followed)
                found.update((unit, reason) for unit in units if unit not in found)
            for unit, reason in _divided_by(graph, name, compute_dtype):
                found.setdefault(unit, reason)
        elif (
            node.op == "Cast"
            and graph.units_of(name)
            and _is_count(graph, name)
            and not _fits(count(graph.view, name), compute_dtype)
        ):
            reason = Reason(RANGE_GUARD, "%s is a count computed from shapes" % name, name)
            for unit in graph.units_of(name):
                found.setdefault(unit, reason)
    return found


def misfit(node: tf.NodeDef, compute_dtype: str) -> Optional[Misfit]:
    """A value of a float32 constant that the compute dtype can't hold.

    None if it holds all of them.
    """
    values = float32_values(node)
    values = values[np.isfinite(values) & (values != 0)]
    sizes = np.abs(values)
    large, small = sizes > FORMATS[compute_dtype].largest, sizes < FORMATS[compute_dtype].smallest
    if large.any():
        return Misfit(float(values[sizes.argmax()]), True)
    return Misfit(float(values[sizes.argmin()]), bool(small.all())) if small.any() else None


def small_divisor(node: tf.NodeDef, compute_dtype: str) -> Optional[float]:
    """A constant's smallest size, if the compute dtype can't hold its reciprocal; else None."""
    sizes = np.abs(float32_values(node))
    small = sizes[(sizes > 0) & (sizes < 1 / FORMATS[compute_dtype].largest)]
    return float(small.min()) if small.size else None


def is_off_zero(graph: TypedGraph, name: str) -> bool:
    """Whether a constant that half precision holds keeps a node's input away from zero.

    For example `variance + 0.001`, as a variance isn't negative.
    """
    nodes = graph.view.nodes
    sums = [
        port.node
        for port in graph.view.inputs(name)
        if nodes[port.node].op in ("Add", "AddV2", "Maximum")
    ]
    added = [
        float32_values(nodes[port.node])
        for each in sums
        for port in graph.view.inputs(each)
        if nodes[port.node].op == "Const"
    ]
    return any(len(values) > 0 and values.min() >= FORMATS["float16"].smallest for values in added)


def is_exact(node: tf.NodeDef, compute_dtype: str) -> bool:
    """Whether the compute dtype holds a float32 constant without rounding."""
    values = float32_values(node)
    return bool(
        np.array_equal(
            values, values.astype(tf.as_dtype(compute_dtype).as_numpy_dtype).astype(np.float32)
        )
    )


def _users(graph: TypedGraph, constant: str, policy: Policy, fit: Misfit) -> Iterator[int]:
    """Units that compute with a constant, and those that pass it on to them."""
    seen: Set[str] = {constant}
    waiting: List[str] = [constant]
    yield from graph.units_of(constant)
    while waiting:
        name = waiting.pop()
        for consumer in graph.view.consumers(name):
            op = graph.view.nodes[consumer.node].op
            unit = graph.reader(consumer)
            if unit < 0 or op in FORGETS_VALUES or consumer.node in seen:
                continue
            if op in policy.allow and not fit.spoils_all:
                continue
            yield unit
            if op in KEEPS_VALUES:
                seen.add(consumer.node)
                waiting.append(consumer.node)


def _products_of_results(
    graph: TypedGraph, constant: str, policy: Policy, followed: Set[str]
) -> Iterator[int]:
    """Units of matmuls and convolutions that read multiples of a constant, or sums with it.

    `followed` are nodes that other such constants led to; those of this one are added.
    """
    nodes = graph.view.nodes
    hands_on = SUMS | KEEPS_VALUES | {"Const", "Mul", "Sub"}
    behind = graph.view.followed(
        [constant], lambda name: name not in followed and nodes[name].op in hands_on
    )
    followed |= behind
    for name in behind - {constant}:
        for consumer in graph.view.consumers(name):
            if nodes[consumer.node].op in policy.allow and graph.reader(consumer) >= 0:
                yield graph.reader(consumer)


def _divided_by(
    graph: TypedGraph, constant: str, compute_dtype: str
) -> Iterator[Tuple[int, Reason]]:
    """Units that divide by a constant whose reciprocal half precision can't hold."""
    small = small_divisor(graph.view.nodes[constant], compute_dtype)
    if small is None:
        return
    words = "1 / %s is %g, which %s can't hold" % (constant, 1 / small, compute_dtype)
    for consumer in graph.view.consumers(constant):
        divides = graph.view.nodes[consumer.node].op in DIVIDES_BY_RECIPROCAL
        if divides and consumer.slot == 1 and graph.reader(consumer) >= 0:
            yield graph.reader(consumer), Reason(RANGE_GUARD, words, constant)


def _fits(number: Optional[float], compute_dtype: str) -> bool:
    return number is not None and number <= FORMATS[compute_dtype].largest


def _is_count(graph: TypedGraph, name: str) -> bool:
    """Whether a Cast turns an integer computed from shapes and constants into a float."""
    node = graph.view.nodes[name]
    if "SrcT" not in node.attr or node.attr["SrcT"].type not in (INT32, INT64):
        return False
    sources = [
        n
        for n in _integer_ancestors(graph, name)
        if not graph.view.inputs(n) or graph.view.nodes[n].op in SHAPE_OPS
    ]
    ops = {graph.view.nodes[n].op for n in sources}
    return bool(ops & SHAPE_OPS) and ops <= SHAPE_OPS | {"Const"}


def _integer_ancestors(graph: TypedGraph, name: str) -> Set[str]:
    """Ancestors by data, not beyond reads of shapes; only the first ones."""
    seen: Set[str] = set()
    waiting = [port.node for port in graph.view.inputs(name)]
    while waiting and len(seen) < _MOST_ANCESTORS:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            if graph.view.nodes[current].op not in SHAPE_OPS:
                waiting.extend(port.node for port in graph.view.inputs(current))
    return seen
