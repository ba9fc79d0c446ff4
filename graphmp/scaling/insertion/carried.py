"""Flags from branches and loops, as seen by the step.

1. The flags of all iterations of a while loop are collected in a loop variable, initially true.
2. A flag on one side of a conditional is true if the other side is taken. Of several losses, of
   which one suffices, it is false there: what isn't taken trains nothing.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope


class Branch(NamedTuple):
    """One side of a conditional.

    Attributes:
        predicate: a stand-in for its predicate.
        side: 1 for true, 0 for false.
        apart: sides of other conditionals that the predicate isn't on.
    """

    predicate: Any
    side: int
    apart: Tuple[Any, ...] = ()


class Frame(NamedTuple):
    """A while loop.

    Attributes:
        name: of its frame.
        parallel_iterations: of the loop.
        condition: a stand-in for its LoopCond.
        branches: the sides that it requires, innermost first.
    """

    name: str
    parallel_iterations: int
    condition: Any
    branches: Sequence[Branch] = ()


def alive(flag: Any, branches: Sequence[Branch], elsewhere: bool = True) -> Any:
    """A flag that exists only on some sides of conditionals, innermost first.

    `elsewhere` is its value on the others.
    """
    for branch in branches:
        switch = tf.raw_ops.Switch(
            data=taken(branch.predicate, branch.apart), pred=branch.predicate, name="switch"
        )
        other = switch.output_false if branch.side else switch.output_true  # false, and true
        as_it_is = bool(branch.side) != elsewhere
        other = tf.identity(other) if as_it_is else tf.logical_not(other)
        flag = tf.raw_ops.Merge(inputs=[flag, other], name="alive").output
    return flag


def taken(value: Any, branches: Sequence[Branch]) -> Any:
    """A value that exists only on some sides of conditionals, innermost first."""
    for branch in reversed(branches):
        switch = tf.raw_ops.Switch(data=value, pred=branch.predicate, name="taken")
        value = switch.output_true if branch.side else switch.output_false
    return value


def carried(frames: Sequence[Frame], flag: Callable[[], Any], scope: str) -> Any:
    """Whether a flag was true in all iterations: a scalar bool tensor outside of loops.

    Args:
        frames: nested loops, outermost first.
        flag: makes the flag of one iteration of the innermost loop.
        scope: the name scope below `graphmp/`.
    """
    loops: List[Any] = []
    with own_scope(scope + "/in_loop"):
        value = tf.constant(True)
        for frame in frames:
            around = value
            value = taken(value, frame.branches)
            entered = tf.raw_ops.Enter(
                data=value,
                frame_name=frame.name,
                parallel_iterations=frame.parallel_iterations,
                name="entered",
            )
            merge = tf.raw_ops.Merge(inputs=[entered, entered], name="merge")
            switch = tf.raw_ops.Switch(data=merge.output, pred=frame.condition, name="switch")
            value = tf.identity(switch.output_true, name="before")
            loops.append((merge.output.op, switch.output_false, around, frame.branches))
        with tf.control_dependencies([value]):
            here = flag()
        value = tf.logical_and(value, here, name="after")
        for merge, left, around, branches in reversed(loops):
            merge._update_input(1, tf.raw_ops.NextIteration(data=value, name="next"))
            value = tf.raw_ops.Exit(data=left, name="exit")
            if branches:
                value = tf.logical_and(around, alive(value, branches), name="left")
        return value


def entered(frames: Sequence[Frame], value: Any, scope: str) -> Any:
    """A tensor from outside of loops, for use in their iterations."""
    with own_scope(scope):
        for frame in frames:
            value = tf.raw_ops.Enter(
                data=value,
                frame_name=frame.name,
                is_constant=True,
                parallel_iterations=frame.parallel_iterations,
                name="entered",
            )
        return value
