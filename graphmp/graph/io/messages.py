"""TensorFlow's protobuf messages, by name or in binary form; compat.v1 doesn't export all."""

from __future__ import annotations

import functools
from typing import Any, Optional

from google.protobuf import symbol_database
from google.protobuf.message import DecodeError

from graphmp.graph.io.strict import parse_strictly


def new(name: str) -> Any:
    """An empty message, such as a `tensorflow.SavedModel`."""
    return _kind(name)()


@functools.lru_cache(maxsize=None)
def _kind(name: str) -> Any:
    return symbol_database.Default().GetSymbol(name)


def parse(name: str, data: bytes) -> Optional[Any]:
    """Parse a message such as `tensorflow.VariableDef`; None if the bytes are something else."""
    message = new(name)
    try:
        parse_strictly(data, message)
    except DecodeError:
        return None
    return message


def with_nodes_reversed(meta_graph: Any) -> Any:
    """A copy of a MetaGraphDef with its nodes in the opposite order."""
    copy = type(meta_graph)()
    copy.CopyFrom(meta_graph)
    nodes = list(reversed(copy.graph_def.node))
    del copy.graph_def.node[:]
    copy.graph_def.node.extend(nodes)
    return copy


def serialize(message: Any) -> bytes:
    """The binary form of a message, the same in every process.

    NaN thus equals itself, and 0 isn't -0.
    """
    data: bytes = message.SerializeToString(deterministic=True)
    return data
