"""Ops that call functions of a graph's library."""

from __future__ import annotations

from typing import AbstractSet, Any, Container, Dict, Iterable, Iterator, List, Mapping, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.walk import reached

BRANCHES = ("then_branch", "else_branch")  # the attributes of a conditional that name its functions


def functions_by_name(graph_def: tf.GraphDef) -> Dict[str, Any]:
    """The functions of a graph's library."""
    return {function.signature.name: function for function in graph_def.library.function}


def functions_named(node: Any) -> Iterator[str]:
    """Candidates for function names in a node: its op, and the functions in its attributes."""
    yield node.op
    for attribute in node.attr.values():
        kind = attribute.WhichOneof("value")
        if kind == "func":
            yield attribute.func.name
        elif kind == "list":
            yield from (function.name for function in attribute.list.func)


def called(node: Any, functions: Container[str]) -> List[str]:
    """The functions, among some, that a node calls, each once."""
    if not functions:
        return []
    return [name for name in dict.fromkeys(functions_named(node)) if name in functions]


def with_called(library: Mapping[str, Any], names: Iterable[str]) -> Set[str]:
    """The named functions of a library, and all that they name, directly or indirectly."""

    def named(name: str) -> Iterator[str]:
        return (other for node in library[name].node_def for other in functions_named(node))

    return reached(names, named, library.__contains__)


def with_callers(
    graph_def: tf.GraphDef, functions: AbstractSet[str], but: AbstractSet[str] = frozenset()
) -> Set[str]:
    """Some functions of a library and all their callers, direct or indirect, not through `but`."""
    callers: Dict[str, Set[str]] = {}
    for function in graph_def.library.function:
        if function.signature.name not in but:
            for node in function.node_def:
                for name in functions_named(node):
                    callers.setdefault(name, set()).add(function.signature.name)
    return reached(functions, lambda name: callers.get(name, ()))
