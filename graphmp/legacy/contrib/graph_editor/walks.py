"""Walks through a graph, from operations or tensors on or back."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.graph_editor import lists
from graphmp.legacy.contrib.graph_editor.lists import ControlOutputs

__all__ = [
    "get_backward_walk_ops",
    "get_forward_walk_ops",
    "get_ops_ios",
    "get_walks_intersection_ops",
    "get_walks_union_ops",
    "get_within_boundary_ops",
]

Step = Callable[[tf.Operation], Iterable[tf.Operation]]
Within = Optional[Callable[[tf.Operation], bool]]


def _seeds(seeds: Any, of_tensors: Callable[[Any], List[tf.Operation]]) -> List[tf.Operation]:
    found = lists.as_list(seeds)
    if found and isinstance(found[0], tf.Tensor):
        return of_tensors(found)
    return lists.make_list_of_op(found, allow_graph=False)


def _walk(
    seeds: List[tf.Operation], step: Step, inclusive: bool, within_ops: Any, within_fn: Within
) -> List[tf.Operation]:
    """The operations reached from those seeds that are within the limits, nearest first."""
    allowed = None if within_ops is None else set(lists.make_list_of_op(within_ops))

    def inside(op: tf.Operation) -> bool:
        return (allowed is None or op in allowed) and bool(within_fn is None or within_fn(op))

    wave = [op for op in lists.unique(seeds) if inside(op)]
    reached = dict.fromkeys(wave)
    while wave:
        found = lists.unique(after for op in wave for after in step(op))
        wave = [op for op in found if op not in reached and inside(op)]
        reached.update(dict.fromkeys(wave))
    return [op for op in reached if inclusive or op not in seeds]


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Within = None,
    stop_at_ts: Any = (),
    control_outputs: Optional[ControlOutputs] = None,
) -> List[tf.Operation]:
    """The operations after the seeds; tensors stand for the operations that read them."""
    _, control_outputs = lists.check_cios(False, control_outputs)
    stops = set(lists.make_list_of_t(stop_at_ts))

    def step(op: tf.Operation) -> Iterable[tf.Operation]:
        yield from (after for t in op.outputs if t not in stops for after in t.consumers())
        if control_outputs is not None:
            yield from control_outputs.get(op)

    seeds = _seeds(seed_ops, lists.get_consuming_ops)
    return _walk(seeds, step, inclusive, within_ops, within_ops_fn)


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Within = None,
    stop_at_ts: Any = (),
    control_inputs: bool = False,
) -> List[tf.Operation]:
    """The operations before the seeds; tensors stand for the operations that make them."""
    control_inputs, _ = lists.check_cios(control_inputs)
    stops = set(lists.make_list_of_t(stop_at_ts))

    def step(op: tf.Operation) -> Iterable[tf.Operation]:
        yield from (t.op for t in op.inputs if t not in stops)
        if control_inputs:
            yield from op.control_inputs

    seeds = _seeds(seed_ops, lists.get_generating_ops)
    return _walk(seeds, step, inclusive, within_ops, within_ops_fn)


def _walks(
    forward: Tuple[Any, bool],
    backward: Tuple[Any, bool],
    within: Tuple[Any, Within],
    controls: Tuple[Any, ...],
) -> Tuple[List[tf.Operation], List[tf.Operation]]:
    """The operations after the first seeds, and those before the others."""
    before, after = lists.check_cios(*controls)
    return (
        get_forward_walk_ops(*forward, *within, (), after),
        get_backward_walk_ops(*backward, *within, (), before),
    )


def get_walks_intersection_ops(
    forward_seed_ops: Any,
    backward_seed_ops: Any,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Within = None,
    control_inputs: bool = False,
    control_outputs: Optional[ControlOutputs] = None,
    control_ios: Optional[ControlOutputs] = None,
) -> List[tf.Operation]:
    """The operations that are both after the first seeds and before the others."""
    ahead, behind = _walks(
        *((forward_seed_ops, forward_inclusive), (backward_seed_ops, backward_inclusive)),
        *((within_ops, within_ops_fn), (control_inputs, control_outputs, control_ios)),
    )
    members = set(behind)
    return [op for op in ahead if op in members]


def get_walks_union_ops(
    forward_seed_ops: Any,
    backward_seed_ops: Any,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Within = None,
    control_inputs: bool = False,
    control_outputs: Optional[ControlOutputs] = None,
    control_ios: Optional[ControlOutputs] = None,
) -> List[tf.Operation]:
    """The operations that are after the first seeds or before the others."""
    ahead, behind = _walks(
        *((forward_seed_ops, forward_inclusive), (backward_seed_ops, backward_inclusive)),
        *((within_ops, within_ops_fn), (control_inputs, control_outputs, control_ios)),
    )
    return lists.unique([*ahead, *behind])


def get_ops_ios(
    ops: Any,
    control_inputs: bool = False,
    control_outputs: Optional[ControlOutputs] = None,
    control_ios: Optional[ControlOutputs] = None,
) -> List[tf.Operation]:
    """The operations whose tensors the given ones read, and those that read theirs."""
    before, after = lists.check_cios(control_inputs, control_outputs, control_ios)
    found: List[tf.Operation] = []
    for op in lists.make_list_of_op(ops):
        found += [t.op for t in op.inputs]
        found += [reader for t in op.outputs for reader in t.consumers()]
        found += op.control_inputs if before else ()
        found += after.get(op) if after is not None else ()
    return lists.unique(found)


def get_within_boundary_ops(
    ops: Any,
    seed_ops: Any,
    boundary_ops: Any = (),
    inclusive: bool = True,
    control_inputs: bool = False,
    control_outputs: Optional[ControlOutputs] = None,
    control_ios: Optional[ControlOutputs] = None,
) -> List[tf.Operation]:
    """The operations among `ops` that are connected to the seeds without crossing the boundary.

    Raises:
        ValueError: a seed is in the boundary.
    """
    boundary = set(lists.make_list_of_op(boundary_ops))
    seeds = lists.make_list_of_op(seed_ops)
    if boundary.intersection(seeds):
        raise ValueError("A seed is in the boundary")

    def step(op: tf.Operation) -> Iterable[tf.Operation]:
        if op in boundary:
            return ()
        return get_ops_ios(op, control_inputs, control_outputs, control_ios)

    found = _walk(seeds, step, True, ops, None)
    return [op for op in found if inclusive or op not in boundary]
