"""Clones of some nodes of a graph under other names, wired to each other and to the other nodes."""

from __future__ import annotations

from typing import Any, Dict, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.calls import functions_by_name, with_callers
from graphmp.graph.structure.view import CONTROL, GraphView, parse_input
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import ENTERS

_SUFFIX = "_graphmp"  # of a function's copy


def cloned(
    after: GraphView, before: tf.GraphDef, names: Dict[str, str], prefix: str
) -> tf.GraphDef:
    """The clones, and the called functions that differ from the original's of the same name.

    Such a function brings its registered gradient along: SymbolicGradient would derive another one.

    Args:
        after: the graph to clone from.
        before: the original, whose functions keep their names.
        names: the name of each node's clone.
        prefix: goes before the names of while frames. They must differ from the original's, or the
            two can't be run at once.
    """
    result = tf.GraphDef(versions=after.graph_def.versions)
    gradients = _gradients(after.graph_def)
    functions = changed_functions(before, after.graph_def)
    functions = reached(functions, lambda name: gradients.get(name, ()))
    for function in after.graph_def.library.function:
        if function.signature.name in functions:
            copy = result.library.function.add()
            copy.CopyFrom(function)
            copy.signature.name += _SUFFIX
            for node in copy.node_def:
                _rename_functions(node, functions)
            for gradient in gradients.get(function.signature.name, ()):
                result.library.gradient.add(
                    function_name=copy.signature.name, gradient_func=gradient + _SUFFIX
                )
    for name, clone in names.items():
        node = result.node.add()
        node.CopyFrom(after.nodes[name])
        node.name = clone
        node.input[:] = [_input(text, names) for text in node.input]
        _rename_functions(node, functions)
        if node.op in ENTERS:
            node.attr["frame_name"].s = ("%s/" % prefix).encode("utf-8") + node.attr["frame_name"].s
        _colocate(node, after, names)
    return result


def remove_copies(library: Any) -> None:
    """Remove the functions that `cloned` added from a graph's library, and their gradients."""
    functions = [f for f in library.function if not f.signature.name.endswith(_SUFFIX)]
    gradients = [row for row in library.gradient if not row.function_name.endswith(_SUFFIX)]
    library.Clear()
    library.function.extend(functions)
    library.gradient.extend(gradients)


def with_output(text: str) -> str:
    """An input string with its output's number, the form used by the importer's map of inputs."""
    port = parse_input(text)
    return text if port.output == CONTROL else "%s:%d" % port


def _input(text: str, names: Dict[str, str]) -> str:
    port = parse_input(text)
    clone = names.get(port.node)
    return with_output(text) if clone is None else str(port._replace(node=clone))


def _colocate(node: tf.NodeDef, after: GraphView, names: Dict[str, str]) -> None:
    """Let `_class` of a clone name its clone; next to a shared node it gets that node's device."""
    if "_class" not in node.attr:
        return
    with_nodes = [text.decode("utf-8")[len("loc:@") :] for text in node.attr["_class"].list.s]
    del node.attr["_class"]
    for name in with_nodes:
        if name in names:
            node.attr["_class"].list.s.append(("loc:@" + names[name]).encode("utf-8"))
        elif not node.device and name in after.nodes:
            node.device = after.nodes[name].device


def changed_functions(before: tf.GraphDef, after: tf.GraphDef) -> Set[str]:
    """Functions whose bodies or registered gradients the conversion changed, and their callers."""
    old = functions_by_name(before)
    gradients = _gradients(after)
    changed = {f.signature.name for f in after.library.function if old.get(f.signature.name) != f}
    while True:
        found = with_callers(after, changed)
        changed = found | {name for name, used in gradients.items() if not found.isdisjoint(used)}
        if changed == found:
            return found


def _gradients(graph_def: tf.GraphDef) -> Dict[str, List[str]]:
    """The registered gradient of each function that has one, in a list; both are in the library."""
    library = functions_by_name(graph_def)
    return {
        row.function_name: [row.gradient_func]
        for row in graph_def.library.gradient
        if row.function_name in library and row.gradient_func in library
    }


def _rename_functions(node: tf.NodeDef, functions: Set[str]) -> None:
    if node.op in functions:
        node.op += _SUFFIX
    for attribute in node.attr.values():
        kinds = [attribute.func] if attribute.HasField("func") else list(attribute.list.func)
        for function in kinds:
            if function.name in functions:
                function.name += _SUFFIX
