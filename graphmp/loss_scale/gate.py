"""Skipping: state that is written only when a flag is true, and what the train op hangs on stays alive either way."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope, same_scope, v1_control_flow


def run_if(finite: Any, build: Callable[[], Any], scope: str) -> Any:
    """Builds ops that run only where `finite` (scalar bool) is true; their names are what they would be ungated.

    Returns an op that runs in either case, after them where they run. Reference variables need the v1 conditional:
    its switches are dead on the side not taken, and a dead update writes nothing (1.15.5, 2.21).
    """
    outside = tf.get_default_graph().get_name_scope()

    def taken() -> Any:
        with same_scope(outside):
            return build()

    with own_scope(scope), v1_control_flow(), _fetchable(tf.get_default_graph()):
        merged = tf.cond(finite, taken, tf.no_op, name="skip")
        return tf.group(merged, name="apply_gradients")


def value_if(finite: Any, new: Any, old: Any, scope: str) -> Any:
    """`new` where the scalar bool `finite` holds, else `old`; same shape and dtype. NaN in `new` does not leak."""
    with own_scope(scope):
        return tf.where(finite, new, old)


@contextlib.contextmanager
def _fetchable(graph: Any) -> Iterator[None]:
    """Keeps ops made inside a conditional fetchable by name: a dead op is a valid target, unlike its tensors (1.15.5, 2.21)."""
    before = set(graph._unfetchable_ops)
    try:
        yield
    finally:
        graph._unfetchable_ops.intersection_update(before)
