"""Functions of a library that are rewritten inside: those that the graph calls.

Their signatures don't change. A function that an input pipeline or another op uses too keeps its
body: `tf.data` stays float32.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.calls import functions_named
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import CALLS


def called_functions(graph_def: tf.GraphDef) -> List[str]:
    """Names of the functions to rewrite, in the order of the library."""
    bodies = {function.signature.name: function.node_def for function in graph_def.library.function}
    if not bodies:
        return []
    gradients = {
        row.function_name: row.gradient_func
        for row in graph_def.library.gradient
        if row.gradient_func in bodies
    }
    called = _reached(graph_def.node, bodies, gradients, True)
    elsewhere: Set[str] = set()
    for nodes in [graph_def.node] + [bodies[name] for name in called]:
        elsewhere |= _reached(nodes, bodies, gradients, False)
    return [name for name in bodies if name in called - elsewhere]


def _reached(
    nodes: Iterable[Any], bodies: Dict[str, Any], gradients: Dict[str, str], by_call: bool
) -> Set[str]:
    """Functions that nodes use, by a call or otherwise, and all that those use in turn.

    Each includes its gradient function.
    """

    def used(name: str) -> Iterator[str]:
        if name in gradients:
            yield gradients[name]
        for node in bodies[name]:
            if not by_call or _is_call(node, bodies):
                yield from _used(node, bodies)

    starts = (node for node in nodes if _is_call(node, bodies) == by_call)
    return reached((name for node in starts for name in _used(node, bodies)), used)


def _is_call(node: Any, bodies: Dict[str, Any]) -> bool:
    return node.op in CALLS or node.op in bodies


def _used(node: Any, bodies: Dict[str, Any]) -> List[str]:
    """Functions named by a node."""
    return [name for name in functions_named(node) if name in bodies]
