"""Variables stored in float32 and read in the compute dtype."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import is_half
from graphmp.recipe import state as states


def float32_variable_storage_getter(
    getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any
) -> Any:
    """A custom getter for `tf.variable_scope` that stores half-precision variables in float32.

    They are cast when read. `trainable=None`, which tf.get_variable passes since TensorFlow 1.13,
    means trainable. A variable that is not trainable is returned uncast, in float32, so that moving
    averages can assign to it.

    Args:
        getter: makes the variable; takes the arguments of `tf.get_variable`.
        name: the variable's full name.
        *args: shape, dtype and so on, by position.
        **kwargs: the same by name.

    Returns:
        A tensor of the requested dtype for a trainable variable that was requested in half
        precision, a partitioned variable of such tensors if it is partitioned; otherwise the
        variable itself.
    """
    return make_getter({})(getter, name, *args, **kwargs)


def make_getter(known: Dict[str, str]) -> Callable[..., Any]:
    """A getter that stores half-precision variables in the dtype in `known`, else in float32."""

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        kwargs.update(zip(("shape", "dtype", "initializer", "regularizer"), args))
        requested = tf.as_dtype(kwargs.get("dtype") or tf.float32).base_dtype
        if not is_half(requested):
            return getter(name, **kwargs)
        variable = getter(name, **dict(kwargs, dtype=tf.as_dtype(known.get(name, "float32"))))
        if kwargs.get("trainable") is False:
            return variable
        return (
            _cast_parts(variable, requested)
            if hasattr(variable, "as_tensor")
            else _cast(variable, requested)
        )

    return get


def nested(outer: Optional[Callable[..., Any]], inner: Callable[..., Any]) -> Callable[..., Any]:
    """A getter that calls `inner` with `outer`, a scope's own custom getter, as TensorFlow does."""
    if outer is None:
        return inner

    def both(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return inner(functools.partial(outer, getter), *args, **kwargs)

    return both


def _cast(variable: Any, dtype: Any) -> Any:
    graph = tf.get_default_graph()
    return states.of(graph).cast_variable(variable, dtype)


def _cast_parts(variable: Any, dtype: Any) -> Any:
    """A partitioned variable of casts: look-ups still find each row in its own part."""
    partitioned: Any = type(variable)  # the class differs between TensorFlow 1 and 2

    class CastPartitionedVariable(partitioned):
        def __init__(self) -> None:
            self.__dict__.update(vars(variable))
            self._variable_list = [_cast(part, dtype) for part in variable]
            self._as_tensor = None
            self._dtype = dtype

        def _concat(self) -> Any:
            axis = max(range(len(variable._partitions)), key=lambda i: variable._partitions[i])
            return tf.concat(self._variable_list, axis)

    return CastPartitionedVariable()
