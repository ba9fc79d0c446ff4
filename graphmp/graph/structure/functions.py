"""Functions of a library that are rewritten inside: those that the graph calls.

Their signatures don't change. A function that an input pipeline or another op uses too keeps its
body: `tf.data` stays float32. What nothing uses never runs: TensorFlow leaves a `tf.function` or a
branch in the library when `tf.gradients` replaces it.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterable, Iterator, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.calls import functions_named
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import CALLS


def called_functions(graph_def: tf.GraphDef) -> List[str]:
    """Names of the functions to rewrite, in the order of the library."""
    bodies = _bodies(graph_def)
    if not bodies:
        return []
    gradients = _gradients(graph_def, bodies)
    called = _reached(graph_def.node, bodies, gradients, True)
    elsewhere = _elsewhere(graph_def, called, bodies, gradients)
    return [name for name in bodies if name in called - elsewhere]


def unused_functions(graph_def: tf.GraphDef) -> Set[str]:
    """Names of the functions that nothing in the graph uses."""
    bodies = _bodies(graph_def)
    if not bodies:
        return set()
    gradients = _gradients(graph_def, bodies)
    called = _reached(graph_def.node, bodies, gradients, True)
    return set(bodies) - called - _elsewhere(graph_def, called, bodies, gradients)


def _elsewhere(
    graph_def: tf.GraphDef,
    called: AbstractSet[str],
    bodies: Dict[str, Any],
    gradients: Dict[str, str],
) -> Set[str]:
    """Functions that the graph, or a function that it calls, uses otherwise than by a call."""
    users = [graph_def.node, *(bodies[name] for name in called)]
    return set().union(*(_reached(nodes, bodies, gradients, False) for nodes in users))


def _bodies(graph_def: tf.GraphDef) -> Dict[str, Any]:
    """The nodes of each function of the library."""
    return {function.signature.name: function.node_def for function in graph_def.library.function}


def _gradients(graph_def: tf.GraphDef, bodies: Dict[str, Any]) -> Dict[str, str]:
    """The functions that have a gradient function in the library, with that."""
    return {
        row.function_name: row.gradient_func
        for row in graph_def.library.gradient
        if row.gradient_func in bodies
    }


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
