"""The pairs of graph bodies of two MetaGraphDefs: the main graph, and every function."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.io.stored import StoredMetaGraph
from graphmp.graph.structure.calls import functions_by_name
from graphmp.graph.structure.view import CONTROL, GraphView, Port, view_of
from graphmp.policy.op_sets import ARGUMENT, RESULT
from graphmp.tf_hooks.bodies import RESULTS

Pair = Tuple[str, GraphView, GraphView]


def pairs(before: StoredMetaGraph, after: StoredMetaGraph) -> Iterator[Pair]:
    """Name, original and converted graph of each body; a missing one is empty.

    Functions are sorted by name.

    Raises:
        GraphmpError: GMP008 if a node name is not unique, or an input names a missing node.
    """
    yield "", view_of(before), view_of(after)
    old, new = library(before), library(after)
    for name in sorted(set(old) | set(new)):
        yield name, _view(old.get(name)), _view(new.get(name))


def library(meta_graph: tf.MetaGraphDef) -> Dict[str, Any]:
    """The functions of a graph by name."""
    return functions_by_name(meta_graph.graph_def)


def function_port(text: str) -> Port:
    """The port named by an input string of a function's node.

    `x`, or `x:y:1`, the second output in `y` of node x; `x:y` is the first.
    """
    if text.startswith("^"):
        return Port(text[1:], CONTROL)
    name, colon, output = text.partition(":")
    if not colon:
        return Port(name, 0)
    # an output without a number, for want of its op's definition
    return Port(name, output if ":" in output else output + ":0")  # type: ignore[arg-type]


def _view(function: Any) -> GraphView:
    """A function's body, including nodes for arguments and results."""
    graph = tf.GraphDef()
    if function is None:
        return GraphView(graph)
    for argument in function.signature.input_arg:
        graph.node.add(name=argument.name, op=ARGUMENT).attr["T"].type = argument.type
    graph.node.extend(function.node_def)
    for result in function.signature.output_arg:
        node = graph.node.add(name=RESULTS + result.name, op=RESULT)
        node.attr["T"].type = result.type
        node.input.append(function.ret.get(result.name, ""))
    return GraphView(graph, function_port)
