"""Nodes of functions by the names that they have once TensorFlow has inlined the calls.

A node x of a function becomes `call/x`; of a While's body `loop/body/_1/x`, of an If's branch
`if/then/_1/x`, of a gradient function `call/Func/_1/x` (seen in traces of 1.15 and 2.21).
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.calls import called, functions_by_name
from graphmp.naming import in_body

_MARK = re.compile(r"(\w+)/_\d+/")
_ATTRIBUTES = {"body": "body", "cond": "cond", "then": "then_branch", "else": "else_branch"}


class Inlined:
    """The nodes of a graph and of its functions."""

    def __init__(self, graph_def: tf.GraphDef):
        """Args: graph_def: the graph, with its library."""
        self._functions = functions_by_name(graph_def)
        self._bodies: Dict[str, Dict[str, Any]] = {"": {n.name: n for n in graph_def.node}}
        self._known: Dict[str, Optional[Tuple[str, Any]]] = {}

    def path(self, name: str) -> Optional[str]:
        """The path of the node of an inlined name, as of `in_body`; None if there is no such node.

        A node of the graph itself has its name.
        """
        found = self._of(name)
        return None if found is None else in_body(found[0], found[1].name)

    def node(self, name: str) -> Any:
        """The NodeDef of the node of an inlined name; None if there is no such node."""
        found = self._of(name)
        return None if found is None else found[1]

    def _of(self, name: str) -> Optional[Tuple[str, Any]]:
        if name not in self._known:
            self._known[name] = self._found("", name)
        return self._known[name]

    def _found(self, body: str, name: str) -> Optional[Tuple[str, Any]]:
        """The body and node of a name within a body."""
        nodes = self._nodes(body)
        if name in nodes:
            return body, nodes[name]
        if not self._functions:
            return None
        for function, rest in self._calls(nodes, name):
            found = self._found(function, rest)
            if found is not None:
                return found
        return None

    def _calls(self, nodes: Dict[str, Any], name: str) -> Iterator[Tuple[str, str]]:
        """Functions called by a node whose name begins the given one, and the rest of it."""
        end = name.rfind("/")
        while end > 0:
            call, rest = nodes.get(name[:end]), name[end + 1 :]
            mark = _MARK.match(rest)
            rest = rest[mark.end() :] if mark else rest
            for function in called(call, self._functions) if call is not None else ():
                if _is_of(call, mark.group(1) if mark else "", function):
                    yield function, rest
            end = name.rfind("/", 0, end)

    def _nodes(self, body: str) -> Dict[str, Any]:
        if body not in self._bodies:
            self._bodies[body] = {node.name: node for node in self._functions[body].node_def}
        return self._bodies[body]


def _is_of(call: Any, mark: str, function: str) -> bool:
    """Whether a call's function is the one that a mark names; marks of other calls name any."""
    attribute = _ATTRIBUTES.get(mark, "")
    return attribute not in call.attr or call.attr[attribute].func.name == function
