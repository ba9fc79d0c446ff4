"""Graphs that Python hands over as protobuf messages: checked at the gate, once a message."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.gate.gate import check


def given_graph(graph: Any, call: str, accepted: str = "a MetaGraphDef or a GraphDef") -> Any:
    """The MetaGraphDef of a given message, which isn't changed: itself, or one around a GraphDef.

    Args:
        graph: the message.
        call: the function that it was given to, and `accepted` what that takes, for the error.

    Raises:
        GraphmpError: GMP002 for anything else, GMP008 if no TensorFlow can run the graph.
    """
    if isinstance(graph, tf.GraphDef):
        meta_graph = tf.MetaGraphDef()
        meta_graph.graph_def.CopyFrom(graph)
    elif isinstance(graph, tf.MetaGraphDef):
        meta_graph = graph
    else:
        found = "%s: found %s; accepted is %s"
        raise GraphmpError("GMP002", found % (call, type(graph).__name__, accepted))
    check(meta_graph)
    return meta_graph
