"""Adding nodes to a graph that someone else is building, without getting in their way."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

import tensorflow.compat.v1 as tf

from graphmp.naming import SCOPE

_LOCK = threading.Lock()


@contextlib.contextmanager
def own_scope(path: str) -> Iterator[None]:
    """Puts ops under `graphmp/path/`, whatever name scope the caller is in; re-entering adds to the same scope."""
    with tf.name_scope("%s/%s/" % (SCOPE, path)):
        yield


@contextlib.contextmanager
def same_scope(scope: str) -> Iterator[None]:
    """Goes back to the absolute name scope `scope` ("" is the root)."""
    with tf.name_scope(scope + "/" if scope else None):
        yield


def sibling_name(node: str, output: int, dtype: Any) -> str:
    """The name of a tensor's cast: `<tensor>_graphmp_float16`, with the output's index where it isn't the first."""
    return "%s%s_graphmp_%s" % (node, "_%d" % output if output else "", tf.as_dtype(dtype).name)


def cast_beside(tensor: Any, dtype: Any) -> Any:
    """A cast of `tensor` named after it and on no device of its own choice."""
    with same_scope(""):
        return tf.cast(tensor, dtype, name=sibling_name(tensor.op.name, tensor.value_index, dtype))


@contextlib.contextmanager
def v1_control_flow() -> Iterator[None]:
    """While it lasts, `tf.cond` makes Switch and Merge, not a function."""
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
