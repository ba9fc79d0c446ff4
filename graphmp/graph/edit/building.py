"""Adding nodes to a graph that the user is building, without side effects on it."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

import tensorflow.compat.v1 as tf

from graphmp.naming import SCOPE

_LOCK = threading.Lock()


@contextlib.contextmanager
def own_scope(path: str) -> Iterator[None]:
    """Put ops under `graphmp/path/` in any name scope; re-entering adds to the same scope."""
    with tf.name_scope("%s/%s/" % (SCOPE, path)):
        yield


@contextlib.contextmanager
def same_scope(scope: str) -> Iterator[None]:
    """Re-enter the absolute name scope `scope` ("" is the root)."""
    with tf.name_scope(scope + "/" if scope else None):
        yield


def sibling_name(node: str, output: int, dtype: Any) -> str:
    """The name of a tensor's cast: `<tensor>_graphmp_float16`, with the output's index if not 0."""
    return "%s%s_graphmp_%s" % (node, "_%d" % output if output else "", tf.as_dtype(dtype).name)


def cast_beside(tensor: Any, dtype: Any) -> Any:
    """A cast of `tensor`, named after it, with no device of its own."""
    with same_scope(""):
        return tf.cast(tensor, dtype, name=sibling_name(tensor.op.name, tensor.value_index, dtype))


def select(flag: Any, yes: Any, no: Any) -> Any:
    """One of two tensors by a scalar bool, or by a bool for each element.

    As tf.where, which warns on 1.15.5 that it is deprecated.
    """
    return tf.raw_ops.Select(condition=flag, x=yes, y=no)


@contextlib.contextmanager
def v1_control_flow() -> Iterator[None]:
    """Make `tf.cond` create Switch and Merge nodes, not a function."""
    enabled = tf.control_flow_v2_enabled()
    if not enabled:
        yield
        return
    with _LOCK:
        tf.disable_control_flow_v2()
        try:
            yield
        finally:
            tf.enable_control_flow_v2()
