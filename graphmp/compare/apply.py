"""Applying a diff to the original.

The result is the converted graph, so nothing is missing in it.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Dict, Iterable, List, Sequence

import tensorflow.compat.v1 as tf

from graphmp.compare import categories
from graphmp.compare.changes import Change
from graphmp.compare.comparing import bodies
from graphmp.compare.comparing.parts import apply_part
from graphmp.graph.structure.view import CONTROL, Port, parse_input
from graphmp.naming import function_of
from graphmp.policy.op_sets import ARGUMENT, RESULT
from graphmp.tf_hooks.bodies import RESULTS


def applied(changes: Sequence[Change], before: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """A copy of a MetaGraphDef with changes applied.

    Inputs are in their shortest form, control inputs sorted and last.
    """
    result = tf.MetaGraphDef()
    result.CopyFrom(before)
    by_body: Dict[str, List[Change]] = collections.defaultdict(list)
    for change in changes:
        if change.category == categories.META_GRAPH:
            apply_part(result, change)
        elif change.category == categories.FUNCTION:
            _apply_function(result.graph_def.library, change)
        else:
            by_body[change.body].append(change)
    _apply_body(result.graph_def.node, by_body[""], parse_input)
    for function in result.graph_def.library.function:
        _apply_body(
            function.node_def, by_body[function.signature.name], bodies.function_port, function
        )
    return result


def _apply_function(library: Any, change: Change) -> None:
    """Add or remove a function, without its nodes, or change all but its body."""
    name = function_of(change.node)
    old = {function.signature.name: function for function in library.function}.get(name)
    if change.value is None:
        library.function.remove(old)
        return
    function = library.function.add() if old is None else old
    nodes, results = list(function.node_def), dict(function.ret)
    function.CopyFrom(change.value)
    del function.node_def[:]
    function.node_def.extend(nodes)
    function.ClearField("ret")
    for result, text in results.items():
        function.ret[result] = text


def _apply_body(
    nodes: Any, changes: Iterable[Change], parse: Callable[[str], Port], function: Any = None
) -> None:
    """Change the nodes of one body.

    In a function, argument nodes belong to its signature and result nodes to its `ret`.
    """
    by_name = {node.name: node for node in nodes}
    renamed = {
        change.before: change.node for change in changes if change.category == categories.RENAMED
    }
    for name, new_name in renamed.items():
        by_name[new_name] = by_name.pop(name)
        by_name[new_name].name = new_name
    for node in by_name.values():
        ports = [parse(text) for text in node.input]
        node.input[:] = _spelled(
            [Port(renamed.get(port.node, port.node), port.output) for port in ports]
        )
        if renamed and "_class" in node.attr:
            node.attr["_class"].list.s[:] = [
                _with(text, renamed) for text in node.attr["_class"].list.s
            ]
    for change in changes:
        if change.category == categories.ADDED:
            by_name[change.node] = tf.NodeDef.FromString(change.value)
        elif change.node in by_name:
            _apply_to_node(by_name, change, parse)
        elif change.node.startswith(RESULTS):
            _apply_to_result(function, change)
    kept = [tf.NodeDef.FromString(node.SerializeToString()) for node in by_name.values()]
    del nodes[:]
    for node in kept:
        if node.op == RESULT:
            function.ret[node.name[len(RESULTS) :]] = node.input[0]
        elif node.op != ARGUMENT:
            nodes.append(node)


def _apply_to_result(function: Any, change: Change) -> None:
    result = change.node[len(RESULTS) :]
    if change.category == categories.REMOVED:
        del function.ret[result]
    elif change.part.startswith("input "):
        function.ret[result] = change.value


def _apply_to_node(
    by_name: Dict[str, tf.NodeDef], change: Change, parse: Callable[[str], Port]
) -> None:
    node = by_name[change.node]
    if change.category == categories.REMOVED:
        del by_name[change.node]
    elif change.category == categories.OP:
        node.op = change.value
    elif change.category == categories.DEVICE:
        node.device = change.value
    elif change.category in (categories.CONTROL, categories.REWIRED, categories.VIA_CAST):
        ports = [parse(text) for text in node.input]
        data, controls = (
            [port for port in ports if (port.output == CONTROL) == control]
            for control in (False, True)
        )
        if change.category == categories.CONTROL:
            controls = [Port(name, CONTROL) for name in change.value]
        else:
            slot = int(change.part[len("input ") :])
            data[slot : slot + 1 if change.value else None] = (
                [parse(change.value)] if change.value else []
            )
        node.input[:] = _spelled(data + controls)
    elif change.category != categories.RENAMED:
        if change.part in node.attr:
            del node.attr[change.part]
        if change.value is not None:
            node.attr[change.part].MergeFromString(change.value)


def _with(location: bytes, renamed: Dict[Any, str]) -> bytes:
    """`loc:@x` with the present name of x."""
    head, at, name = location.decode("utf-8").partition("@")
    return (head + at + renamed.get(name, name)).encode("utf-8")


def _spelled(ports: Sequence[Port]) -> List[str]:
    """Input strings, control inputs last, sorted and without duplicates."""
    return [str(port) for port in ports if port.output != CONTROL] + sorted(
        {str(port) for port in ports if port.output == CONTROL}
    )
