"""Functions that return gradients to the code that applies them, and the calls that lead to them.

A `tf.map_fn` of TensorFlow 2 is one. A function takes gradients if its body holds gradient code by
name that starts there, not from an argument; it writes nothing, and no gradient code calls it. If
names don't tell, recorded calls do, or structure (`training_graph.py`).
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.calls import (
    called,
    functions_by_name,
    functions_named,
    with_called,
    with_callers,
)
from graphmp.graph.structure.gradient_names import claims, proposed
from graphmp.policy.op_sets import CHOICES, PLAIN_CALLS, WHILES


def taking(graph_def: tf.GraphDef, writing: AbstractSet[str]) -> AbstractSet[str]:
    """Find the gradient-taking functions; `writing` are those that write state."""
    library = functions_by_name(graph_def)
    found = {
        name
        for name, function in library.items()
        if name not in writing and any("_grad/" in node.name for node in function.node_def)
    }
    if not found:
        return frozenset()
    code = {name: gradient_code(function.node_def) for name, function in library.items()}
    bodies = [
        (gradient_code(graph_def.node), graph_def.node),
        *((code[name], function.node_def) for name, function in library.items()),
    ]
    backward = {
        name
        for gradients, nodes in bodies
        for node in nodes
        if node.name in gradients
        for name in functions_named(node)
    }
    backward |= {row.gradient_func for row in graph_def.library.gradient}
    return {
        name
        for name in found - with_called(library, backward)
        if any(_starts(node, code[name]) for node in library[name].node_def)
    }


def _starts(node: Any, code: AbstractSet[str]) -> bool:
    """Whether gradients start at a node.

    Arguments of a gradient function don't count; they are written without a colon.
    """
    if node.name not in code or not node.name.rpartition("/")[2].startswith("grad_ys"):
        return False
    return node.op != "Identity" or ":" in node.input[0]


def gradient_code(nodes: Sequence[Any]) -> Set[str]:
    """The nodes of a graph or a body that their names tell to be gradient code."""
    names = {node.name for node in nodes}
    return {name for found in proposed(names, claims(names)).values() for name in found}


class Threads:
    """The calls by which the scale comes to functions that take gradients, and a flag back.

    Attributes:
        graph_def: the graph.
        functions: all functions of its library, by name.
        needed: the functions that take the scale and return a flag: those that take gradients,
            their callers up to the main graph or to a function of `applying`, and sibling branches.
        applying: the functions that have a scale of their own for their calls.
    """

    def __init__(
        self, graph_def: tf.GraphDef, functions: AbstractSet[str], applying: AbstractSet[str]
    ):
        """`functions` take gradients; `applying` have a scale of their own for their calls."""
        self.graph_def = graph_def
        self.functions = functions_by_name(graph_def)
        self.applying = applying & self.functions.keys()
        self.needed = with_callers(graph_def, functions, applying)
        bodies = [graph_def.node, *(function.node_def for function in self.functions.values())]
        self._calls = [node for nodes in bodies for node in nodes]
        size = -1
        while len(self.needed) != size:
            size = len(self.needed)
            self.needed |= {
                name
                for node in self._calls
                for name in called(node, self.functions)
                if called(node, self.needed)
            }
            self.needed = with_callers(graph_def, self.needed, applying)
        self._calls = [node for node in self._calls if called(node, self.needed)]

    def possible(self, rewritten: AbstractSet[str], writing: AbstractSet[str]) -> bool:
        """Whether the functions are only used by calls, a loop's body and condition only by it."""
        others = {
            name
            for node in self._calls
            if node.op not in WHILES
            for name in called(node, self.functions)
        }
        known = all(
            node.op in WHILES | CHOICES | PLAIN_CALLS or node.op in self.functions
            for node in self._calls
        )
        registered = {
            name
            for row in self.graph_def.library.gradient
            for name in (row.function_name, row.gradient_func)
        }
        return (
            known
            and others.isdisjoint(self.loops())
            and not self.needed & (registered | writing)
            and self.needed <= rewritten
        )

    def passes(self, node: Any) -> bool:
        """Whether a node is one of these calls."""
        return bool(called(node, self.needed))

    def calls(self) -> List[str]:
        """The calls in the main graph."""
        return [node.name for node in self.graph_def.node if self.passes(node)]

    def loops(self) -> Dict[str, bool]:
        """The functions that loops call, and whether each is a body; else it is a condition."""
        return {
            name: node.attr["body"].func.name == name
            for node in self._calls
            if node.op in WHILES
            for name in called(node, self.functions)
        }


def calls_of(graph_def: tf.GraphDef, names: AbstractSet[str]) -> Dict[str, Set[str]]:
    """For each call in the main graph, the functions among `names` that it reaches."""
    library = functions_by_name(graph_def)
    found = {
        node.name: with_called(library, named) & names
        for node, named in ((node, called(node, library)) for node in graph_def.node)
        if named
    }
    return {name: taken for name, taken in found.items() if taken}
