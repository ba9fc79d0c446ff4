"""Session options for graphs that are already converted."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.tf_hooks.sessions import unfused


def session_config(target: str = "") -> Any:
    """A tf.ConfigProto for a converted graph.

    TensorFlow's own mixed-precision rewrite is off, and TensorFlow 2 runs channels-first
    convolutions on the CPU, which has no kernels for them (2.15.1, 2.21; 1.15.5 has no such
    option).

    Args:
        target: as for tf.Session. On a server nothing is fused, because TensorFlow's fused ops for
            the CPU don't support bfloat16 there.

    Raises:
        GraphmpError: GMP002 for an invalid target.
    """
    if not isinstance(target, (str, bytes)):
        text = (
            "session_config: found a %s, accepted is a target, as tf.Session takes it: a string"
            " such as server.target"
        )
        raise GraphmpError("GMP002", text % type(target).__name__)
    config = with_session_config(None)
    return unfused(config) if target else config


def with_session_config(given: Optional[Any]) -> Any:
    """A copy of a session's own options combined with those for a converted graph."""
    config = tf.ConfigProto()
    if given is not None:
        config.CopyFrom(given)
    rewrites = config.graph_options.rewrite_options
    rewrites.auto_mixed_precision = type(rewrites).OFF
    if hasattr(rewrites, "cpu_layout_conversion"):
        rewrites.cpu_layout_conversion = type(rewrites).NCHW_TO_NHWC
    return config
