"""Both kinds of loops and conditionals."""

from __future__ import annotations

import contextlib
from typing import Iterator

import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def control_flow(functions: bool) -> Iterator[None]:
    """Make loops and conditionals as calls of functions, or else as nodes."""
    before = tf.control_flow_v2_enabled()
    _switch(functions)
    try:
        yield
    finally:
        _switch(before)


def _switch(functions: bool) -> None:
    (tf.enable_control_flow_v2 if functions else tf.disable_control_flow_v2)()
