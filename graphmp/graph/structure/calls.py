"""Ops that call functions of a graph's library."""

from __future__ import annotations

from typing import AbstractSet, Any, Iterator, Set

import tensorflow.compat.v1 as tf


def functions_named(node: Any) -> Iterator[str]:
    """What may be a function's name in a node: its op, and the functions in its attributes."""
    yield node.op
    for attribute in node.attr.values():
        kind = attribute.WhichOneof("value")
        if kind == "func":
            yield attribute.func.name
        elif kind == "list":
            yield from (function.name for function in attribute.list.func)


def with_callers(
    graph_def: tf.GraphDef, functions: AbstractSet[str], but: AbstractSet[str] = frozenset()
) -> Set[str]:
    """Some functions of a library, and all that call them, through others too; not by way of those in `but`."""
    found = set(functions)
    callers = [
        function for function in graph_def.library.function if function.signature.name not in but
    ]
    while True:
        more = {
            f.signature.name
            for f in callers
            if any(found & set(functions_named(node)) for node in f.node_def)
        } - found
        if not more:
            return found
        found |= more
