"""Intercepting the conversion of a variable to a tensor of a given dtype, as in tf.nn.bias_add."""

from __future__ import annotations

from typing import Any, Callable, Set

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import internals

_INSTALLED: Set[Any] = set()


def install(convert: Callable[..., Any]) -> None:
    """Call `convert(variable, dtype, name, as_ref)` before TensorFlow's own conversion.

    NotImplemented lets TensorFlow convert.
    """
    if convert not in _INSTALLED:
        _INSTALLED.add(convert)
        tf.register_tensor_conversion_function(internals.variable_class(), convert, priority=0)
