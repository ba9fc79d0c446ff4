"""The nodes of a converted graph that are cloned beside the original; the others are shared.

1. A node that the conversion changed or added, or whose function it changed, is cloned, and so are
   all its descendants: loss, gradients, updates, summaries.
2. While loops are cloned whole, gradient loops included: half a frame can't run.
3. A TensorArray or Stack that a clone uses is cloned, with all its users.

Variables, iterators, queues, tables and placeholders depend on nothing that changes, and are
shared. The loss scale's variables are shared from the second conversion of a graph on.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.cloning import changed_functions
from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.calls import functions_named
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView
from graphmp.policy.traits import HANDLE_OPS, PASSES_ON

_CREATORS = frozenset(("Stack", "StackV2", "TensorArray", "TensorArrayV2", "TensorArrayV3"))


def nodes_to_clone(before: tf.GraphDef, after: GraphView, shared: AbstractSet[str]) -> Set[str]:
    """Names of the converted graph's nodes that must be cloned.

    Args:
        before: the original.
        after: the converted graph.
        shared: nodes that the live graph already has from an earlier conversion.
    """
    old = {node.name: serialize(node) for node in before.node}
    functions = changed_functions(before, after.graph_def)
    changed = [
        name
        for name in after.nodes
        if old.get(name) != after.serialized(name)
        or not functions.isdisjoint(functions_named(after.nodes[name]))
    ]
    return with_dependents(after, (name for name in changed if name not in shared), shared)


def with_dependents(view: GraphView, seeds: Iterable[str], shared: AbstractSet[str]) -> Set[str]:
    """The given nodes and all that must be cloned with them, except shared ones."""
    inside, creators = frames(view), _users(view)
    found = view.descendants(seeds) - shared
    while True:
        whole = {path[0] for name, path in inside.items() if path and name in found}
        more = {name for name, path in inside.items() if path and path[0] in whole}
        more |= {creator for creator, users in creators.items() if users & found}
        if more <= found:
            return found
        found = view.descendants(found | more) - shared


def _users(view: GraphView) -> Dict[str, Set[str]]:
    """The nodes that each TensorArray's or Stack's handle leads to."""

    def carries(name: str) -> bool:
        op = view.nodes[name].op
        return op in _CREATORS or op in HANDLE_OPS or op in PASSES_ON

    return {
        name: view.followed([name], carries)
        for name, node in view.nodes.items()
        if node.op in _CREATORS
    }
