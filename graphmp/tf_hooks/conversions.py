"""Having a say where Python turns a variable into a tensor of a dtype that it asks for, tf.nn.bias_add for one."""

from __future__ import annotations

from typing import Any, Callable, Set

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import internals

_INSTALLED: Set[Any] = set()


def install(convert: Callable[..., Any]) -> None:
    """Asks `convert(variable, dtype, name, as_ref)` before TensorFlow's own conversion; NotImplemented stands aside."""
    if convert not in _INSTALLED:
        _INSTALLED.add(convert)
        tf.register_tensor_conversion_function(internals.variable_class(), convert, priority=0)
