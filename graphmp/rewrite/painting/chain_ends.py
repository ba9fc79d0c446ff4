"""Ends of half precision: infer units behind an allow op that lead to no other."""

from __future__ import annotations

from graphmp.graph.state.state import variable_behind
from graphmp.policy.op_sets import SUMS
from graphmp.policy.reason import INFER, SUM, Reason
from graphmp.policy.traits import (
    BIAS_ADDS,
    FORGETS_VALUES,
    MOST_SUMMED_IN_FLOAT32,
    MOVES_NOTHING,
)
from graphmp.rewrite.units import TypedGraph


def may_end(graph: TypedGraph, number: int) -> bool:
    """Whether an infer unit that no allow op reads may be half.

    A test may, and a reduction in gradient code, but not a sum of gradients.
    """
    name, op = graph.units[number].node, graph.node(number).op
    signature = graph.signature(name)
    is_test = signature is not None and all(
        port.attribute != graph.units[number].attribute for port in signature.outputs
    )
    few = len(graph.view.inputs(name)) <= MOST_SUMMED_IN_FLOAT32
    return (
        is_test
        or _adds_bias(graph, name)
        or (name in graph.gradients and not (op in SUMS and few and _leaves(graph, number)))
    )


def _adds_bias(graph: TypedGraph, name: str) -> bool:
    """Whether a node adds a variable to its input.

    A bias, which belongs to the previous matmul.
    """
    op = graph.view.nodes[name].op
    return op in BIAS_ADDS or (
        op in SUMS
        and any(variable_behind(graph.view, port.node) for port in graph.view.inputs(name))
    )


def no_way_on(graph: TypedGraph, number: int) -> Reason:
    """The reason of an infer unit that may not be half, since no allow op reads it."""
    if graph.units[number].node in graph.gradients:
        return Reason(SUM, "adds up in float32")
    return Reason(INFER, "leads to no other half-precision op")


def _leaves(graph: TypedGraph, number: int) -> bool:
    """Whether a unit's result leaves gradient code unchanged.

    Gradient code only copies or adds it.
    """
    start = graph.units[number].node
    seen, waiting = {start}, [start]
    while waiting:
        for consumer in graph.view.consumers(waiting.pop()):
            op = graph.view.nodes[consumer.node].op
            if (
                consumer.node in graph.gradients
                and op not in MOVES_NOTHING
                and consumer.node != start
            ):
                return False
            if (
                consumer.node in graph.gradients
                and consumer.node not in seen
                and op not in FORGETS_VALUES
            ):
                seen.add(consumer.node)
                waiting.append(consumer.node)
    return True
