"""A flag of every iteration of while loops, carried out of them: a loop variable of its own in each, which starts as true."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.building import own_scope


class Frame(NamedTuple):
    """A while loop.

    Attributes:
        name: its frame's.
        parallel_iterations: how many of its iterations run at once.
        condition: a tensor that stands for its LoopCond.
    """

    name: str
    parallel_iterations: int
    condition: Any


def carried(frames: Sequence[Frame], flag: Callable[[], Any], scope: str) -> Any:
    """A scalar bool tensor outside of loops: whether a flag held in all iterations.

    Args:
        frames: loops nested in one another, outermost first.
        flag: makes the flag of one iteration of the innermost.
        scope: the name scope below `graphmp/`.
    """
    loops: List[Any] = []
    with own_scope(scope + "/in_loop"):
        value = tf.constant(True)
        for frame in frames:
            entered = tf.raw_ops.Enter(data=value, frame_name=frame.name, parallel_iterations=frame.parallel_iterations, name="entered")
            merge = tf.raw_ops.Merge(inputs=[entered, entered], name="merge")
            switch = tf.raw_ops.Switch(data=merge.output, pred=frame.condition, name="switch")
            value = tf.identity(switch.output_true, name="before")
            loops.append((merge.output.op, switch.output_false))
        with tf.control_dependencies([value]):
            here = flag()
        value = tf.logical_and(value, here, name="after")
        for merge, left in reversed(loops):
            merge._update_input(1, tf.raw_ops.NextIteration(data=value, name="next"))
            value = tf.raw_ops.Exit(data=left, name="exit")
        return value


def entered(frames: Sequence[Frame], value: Any, scope: str) -> Any:
    """A tensor from outside of loops as their iterations read it."""
    with own_scope(scope):
        for frame in frames:
            value = tf.raw_ops.Enter(
                data=value, frame_name=frame.name, is_constant=True, parallel_iterations=frame.parallel_iterations, name="entered"
            )
        return value
