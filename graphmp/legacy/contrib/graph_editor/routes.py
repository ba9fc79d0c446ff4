"""Other tensors for the readers of tensors, and other control edges."""

from __future__ import annotations

from typing import Any, Iterable, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.graph_editor import lists, views
from graphmp.legacy.contrib.graph_editor.views import SubGraphView

__all__ = [
    "add_control_inputs",
    "remove_control_inputs",
    "reroute_inputs",
    "reroute_ios",
    "reroute_outputs",
    "reroute_ts",
    "swap_inputs",
    "swap_ios",
    "swap_outputs",
    "swap_ts",
]

Edge = Tuple[tf.Operation, int, tf.Tensor]
Views = Tuple[SubGraphView, SubGraphView]


def _readers(old: tf.Tensor, new: tf.Tensor, allowed: Any, forbidden: Set[Any]) -> Iterable[Edge]:
    """The inputs that read a tensor, with the one to read instead."""
    for op in lists.unique(old.consumers()):
        if (allowed is None or op in allowed) and op not in forbidden:
            yield from ((op, place, new) for place, t in enumerate(op.inputs) if t is old)


def _check(one: tf.Tensor, other: tf.Tensor) -> None:
    if one.graph is not other.graph:
        raise ValueError("%s and %s are of different graphs" % (one.name, other.name))
    if not one.dtype.is_compatible_with(other.dtype):
        raise ValueError(
            "%s is %s, but %s is %s" % (one.name, one.dtype.name, other.name, other.dtype.name)
        )


def _reroute(ts0: Any, ts1: Any, can_modify: Any, cannot_modify: Any, swap: bool) -> int:
    """Give the readers of each second tensor the first, and the other way round for a swap."""
    firsts, seconds = lists.make_list_of_t(ts0), lists.make_list_of_t(ts1)
    if len(firsts) != len(seconds):
        raise ValueError("%d tensors for the readers of %d" % (len(firsts), len(seconds)))
    allowed = None if can_modify is None else set(lists.make_list_of_op(can_modify))
    forbidden = set() if cannot_modify is None else set(lists.make_list_of_op(cannot_modify))
    count = 0
    for first, second in zip(firsts, seconds):
        _check(first, second)
        edges = list(_readers(second, first, allowed, forbidden))
        edges += _readers(first, second, allowed, forbidden) if swap else ()
        for op, place, new in edges:
            op._update_input(place, new)
        count += len(edges)
    return count


def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Let the readers of `ts1` read `ts0` instead; returns how many inputs changed."""
    return _reroute(ts0, ts1, can_modify, cannot_modify, False)


def swap_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Exchange the readers of each pair of tensors; returns how many inputs changed.

    An operation that reads both gets them exchanged.
    """
    return _reroute(ts0, ts1, can_modify, cannot_modify, True)


def _reroute_inputs(one: SubGraphView, other: SubGraphView, swap: bool) -> None:
    """Let the second view read what the first reads; outside of them nothing changes."""
    inside = other.ops + lists.get_consuming_ops(other.passthroughs)
    if swap:
        inside += one.ops + lists.get_consuming_ops(one.passthroughs)
    _reroute(one.inputs, other.inputs, inside, None, swap)
    moved = one.inputs, other.inputs
    other.set_inputs(moved[0])
    if swap:
        one.set_inputs(moved[1])


def _reroute_outputs(one: SubGraphView, other: SubGraphView, swap: bool) -> None:
    """Let the readers of the second view read the first; inside of them nothing changes."""
    _reroute(one.outputs, other.outputs, None, one.ops + other.ops, swap)


def _moved(sgv0: Any, sgv1: Any, swap: bool, inputs: bool, outputs: bool) -> Views:
    one, other = views.make_view(sgv0), views.make_view(sgv1)
    if inputs:
        _reroute_inputs(one, other, swap)
    if outputs:
        _reroute_outputs(one, other, swap)
    return one, other


def reroute_inputs(sgv0: Any, sgv1: Any) -> Views:
    """Let the second subgraph read what the first reads; returns both views, changed."""
    return _moved(sgv0, sgv1, False, True, False)


def swap_inputs(sgv0: Any, sgv1: Any) -> Views:
    """Exchange the inputs of two subgraphs; returns both views, changed."""
    return _moved(sgv0, sgv1, True, True, False)


def reroute_outputs(sgv0: Any, sgv1: Any) -> Views:
    """Let the readers of the second subgraph read the first; returns both views."""
    return _moved(sgv0, sgv1, False, False, True)


def swap_outputs(sgv0: Any, sgv1: Any) -> Views:
    """Exchange the readers of two subgraphs; returns both views."""
    return _moved(sgv0, sgv1, True, False, True)


def reroute_ios(sgv0: Any, sgv1: Any) -> Views:
    """Put the first subgraph between the inputs and the readers of both; returns both views."""
    return _moved(sgv0, sgv1, False, True, True)


def swap_ios(sgv0: Any, sgv1: Any) -> Views:
    """Exchange the inputs and the readers of two subgraphs; returns both views."""
    return _moved(sgv0, sgv1, True, True, True)


def _operation(op: Any) -> tf.Operation:
    if not isinstance(op, tf.Operation):
        raise TypeError("Expected a tf.Operation, got: %s" % type(op))
    return op


def add_control_inputs(op: tf.Operation, cops: Any) -> None:
    """Let an operation wait for others.

    Raises:
        ValueError: it waits for one of them already.
    """
    before = lists.make_list_of_op(cops, allow_graph=False)
    for one in before:
        if one in _operation(op).control_inputs:
            raise ValueError("%s waits for %s already" % (op.name, one.name))
    _operation(op)._add_control_inputs(before)


def remove_control_inputs(op: tf.Operation, cops: Any) -> None:
    """Let an operation not wait for others any more.

    Raises:
        ValueError: it doesn't wait for one of them.
    """
    removed = lists.make_list_of_op(cops, allow_graph=False)
    before = list(_operation(op).control_inputs)
    for one in removed:
        if one not in before:
            raise ValueError("%s doesn't wait for %s" % (op.name, one.name))
    op._remove_all_control_inputs()
    op._add_control_inputs([one for one in before if one not in removed])
