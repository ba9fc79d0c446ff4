"""A function's body as a GraphDef and back, so that the same code serves functions and graphs.

A FunctionDef writes the output of a node as `node:argument:index`, an argument as `x`; a GraphDef
writes `node:7`. Arguments become nodes of op `_Arg`, a result x a node `return/x` of op `_Retval`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import CONTROL, parse_input
from graphmp.policy.op_sets import ARGUMENT, RESULT
from graphmp.tf_hooks.op_defs import OpDefs

RESULTS = "return/"  # the prefix of result nodes' names


def as_graph(function: Any, op_defs: OpDefs) -> Optional[tf.GraphDef]:
    """The body of a FunctionDef as a GraphDef.

    None if it has arguments of variable type or number, or an unknown op.
    """
    signature = function.signature
    arguments = list(signature.input_arg) + list(signature.output_arg)
    if any(a.type_attr or a.number_attr or a.type_list_attr for a in arguments):
        return None
    spelled: Dict[str, str] = {}
    graph = tf.GraphDef()
    for argument in signature.input_arg:
        node = graph.node.add(name=argument.name, op=ARGUMENT)
        node.attr["T"].type = argument.type
        spelled[argument.name] = argument.name
    for node in function.node_def:
        types = op_defs.signature(node)
        if types is None:
            return None
        for name, (first, end) in types.outputs_of.items():
            for index in range(first, end):
                spelled["%s:%s:%d" % (node.name, name, index - first)] = "%s:%d" % (
                    node.name,
                    index,
                )
    try:
        for node in function.node_def:
            copy = graph.node.add()
            copy.CopyFrom(node)
            copy.input[:] = [
                text if text.startswith("^") else spelled[_indexed(text, spelled)]
                for text in node.input
            ]
        for argument in signature.output_arg:
            node = graph.node.add(name=RESULTS + argument.name, op=RESULT)
            node.input.append(spelled[_indexed(function.ret[argument.name], spelled)])
            node.attr["T"].type = argument.type
    except KeyError:
        return None
    return graph


def write_back(graph: tf.GraphDef, function: Any, op_defs: OpDefs) -> None:
    """Write a changed body back into its FunctionDef. The signature doesn't change."""
    spelled: Dict[str, List[str]] = {
        argument.name: [argument.name] for argument in function.signature.input_arg
    }
    results = {argument.name: argument for argument in function.signature.output_arg}
    for node in graph.node:
        if node.op in (ARGUMENT, RESULT):
            continue
        types = op_defs.signature(node)
        assert types is not None, (
            node.name
        )  # `as_graph` refused unknown ops, and graphmp only adds known ones
        spelled[node.name] = [
            "%s:%s:%d" % (node.name, name, i)
            for name, (first, end) in types.outputs_of.items()
            for i in range(end - first)
        ]

    def text(edge: str) -> str:
        port = parse_input(edge)
        return edge if port.output == CONTROL else spelled[port.node][port.output]

    del function.node_def[:]
    for node in graph.node:
        if node.op == RESULT:
            function.ret[results[node.name[len(RESULTS) :]].name] = text(node.input[0])
        elif node.op != ARGUMENT:
            copy = function.node_def.add()
            copy.CopyFrom(node)
            copy.input[:] = [text(edge) for edge in node.input]


def _indexed(text: str, spelled: Dict[str, str]) -> str:
    """`node:argument` is its first output; an argument has no colon."""
    return text if text in spelled else text + ":0"
