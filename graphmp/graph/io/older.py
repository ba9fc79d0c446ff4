"""Importing a graph into a TensorFlow that is older than the one that wrote it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Tuple, TypeVar

import tensorflow.compat.v1 as tf

from graphmp.policy.tables import rows

_UNKNOWN = "NodeDef mentions attr"  # of 1.15.5; 2.15.1 and 2.21 ignore what they don't know
_ANY = "*"
_G = TypeVar("_G", tf.MetaGraphDef, tf.GraphDef)
_T = TypeVar("_T")
_LATER: Dict[Tuple[str, str], str] = {
    (op, name): value for name, value, *ops in rows("later_attributes.txt") for op in ops
}


def imported(importer: Callable[[_G], _T], graph: _G) -> _T:
    """The result of an importer, called again without what only a later TensorFlow knows.

    TensorFlow drops attributes that it doesn't know by itself if they have their default, but only
    in a MetaGraphDef that carries the definitions of its ops, and not in functions.

    Args:
        importer: imports a graph of the given kind.
        graph: a MetaGraphDef or a GraphDef; the second call gets a copy.
    """
    try:
        return importer(graph)
    except Exception as error:  # TensorFlow raises errors of any type
        if _UNKNOWN not in str(error):
            raise
    copy = type(graph)()
    copy.CopyFrom(graph)
    drop_later(copy if isinstance(copy, tf.GraphDef) else copy.graph_def)
    return importer(copy)


def drop_later(graph_def: tf.GraphDef) -> None:
    """Remove attributes of later versions that change nothing: see `later_attributes.txt`."""
    for node in _nodes(graph_def):
        for name in list(node.attr):
            value = _LATER.get((node.op, name))
            if value is not None and value in (_ANY, _text(node.attr[name])):
                del node.attr[name]


def _nodes(graph_def: tf.GraphDef) -> Iterator[Any]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _text(value: Any) -> str:
    """An attribute's value as in the table: false, 1, 0.01, "auto", DT_INT32, [] if empty."""
    text = str(value).strip()
    return text.partition(": ")[2] if ": " in text else "[]"
