"""Skipping: state is written only if a flag is true, and the train op can be fetched either way."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope, same_scope, v1_control_flow


def run_if(
    finite: Any, build: Callable[[], Any], scope: str, otherwise: Callable[[], Any] = tf.no_op
) -> Any:
    """Build ops that run only if `finite` (scalar bool) is true; their names don't change.

    `otherwise` builds an op that runs if it is false, after `build` has been called. Returns an op
    that runs in either case, after the ops that run. Reference variables need the v1 conditional:
    its switches are dead on the side not taken, and a dead update writes nothing (1.15.5, 2.21).
    """
    outside = tf.get_default_graph().get_name_scope()

    def taken() -> Any:
        with same_scope(outside):
            return build()

    with own_scope(scope), v1_control_flow(), _fetchable(tf.get_default_graph()):
        merged = tf.cond(finite, taken, otherwise, name="skip")
        return tf.group(merged, name="apply_gradients")


def value_if(finite: Any, new: Any, other: Callable[[Any], Any]) -> Any:
    """`new` if the scalar bool `finite` is true, else a tensor of the same shape and dtype.

    What isn't taken is dead: no kernel computes it, and `new` isn't copied.

    Args:
        finite: the flag.
        new: the tensor to pass on.
        other: makes the other tensor. It gets a copy of `new` that is dead if `finite` is true;
            what it makes has to read that, or be dead then, too.
    """
    dead, taken = tf.raw_ops.Switch(data=new, pred=finite, name="switch")
    return tf.raw_ops.Merge(inputs=[other(dead), taken], name="selected").output


@contextlib.contextmanager
def _fetchable(graph: Any) -> Iterator[None]:
    """Keep ops made inside a conditional fetchable by name.

    A dead op is a valid target of a run, a dead tensor is not (1.15.5, 2.21).
    """
    before = set(graph._unfetchable_ops)
    try:
        yield
    finally:
        graph._unfetchable_ops.intersection_update(before)
