"""Simulated half precision: each half op computes in float32 and rounds its result.

Tensor Cores do the same: they multiply half-precision operands and add up in float32. A CPU's
float16 kernels add up in float16, if they exist, and take up to 300 times as long (the gradient of
a convolution's filter, 2.21).
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.values import changed
from graphmp.graph.structure.view import CONTROL, parse_input
from graphmp.policy.dtypes import FLOAT32, HALF
from graphmp.policy.traits import KEEPS_VALUES, MOVES_NOTHING
from graphmp.tf_hooks import bodies
from graphmp.tf_hooks.op_defs import OpDefs

_SUFFIX = "_graphmp_rounded"
# Their results are among their inputs, or zero: already rounded.
_EXACT = (
    MOVES_NOTHING
    | KEEPS_VALUES
    | {"Abs", "Max", "MaxPool", "Maximum", "Min", "Minimum", "Relu", "ReluGrad"}
)


class Simulation(NamedTuple):
    """A graph that computes in float32 what another computes in half precision.

    Attributes:
        meta_graph: the graph, with the other's names and new ones for rounding.
        rounded: the node with the rounded value of an output of a half-precision op (`x`, `x:1`),
            if it needs rounding. Only for the main graph.
    """

    meta_graph: tf.MetaGraphDef
    rounded: Dict[str, str]


def simulated(meta_graph: tf.MetaGraphDef) -> Simulation:
    """A converted graph with its half precision simulated in float32; functions included.

    Every half-precision value is the float32 result rounded to half precision, infinities included.
    A function with arguments of variable type or number isn't changed.
    """
    result = tf.MetaGraphDef()
    result.CopyFrom(meta_graph)
    op_defs = OpDefs(meta_graph)
    for function in result.graph_def.library.function:
        graph_def = bodies.as_graph(function, op_defs)
        if graph_def is not None:
            _simulate(graph_def, op_defs)
            bodies.write_back(graph_def, function, op_defs)
            for argument in [*function.signature.input_arg, *function.signature.output_arg]:
                argument.type = FLOAT32 if argument.type in HALF else argument.type
    return Simulation(result, _simulate(result.graph_def, op_defs))


def _simulate(graph_def: tf.GraphDef, op_defs: OpDefs) -> Dict[str, str]:
    rounded: Dict[str, str] = {}
    for node in list(graph_def.node):
        signature = op_defs.signature(node)
        outputs = signature.outputs if signature is not None else ()
        rounds = node.op == "Cast" and node.attr["SrcT"].type == FLOAT32
        if rounds and outputs and outputs[0].dtype in HALF:
            rounded[node.name] = _cast(
                graph_def, node.name, node.name + _SUFFIX, outputs[0].dtype, FLOAT32
            )
            continue
        for index, port in enumerate(outputs):
            if port.dtype in HALF and not port.is_ref and node.op not in _EXACT:
                text = node.name if index == 0 else "%s:%d" % (node.name, index)
                name = "%s_%d%s" % (node.name, index, _SUFFIX)
                down = _cast(graph_def, text, name + "_down", FLOAT32, port.dtype)
                rounded[text] = _cast(graph_def, down, name, port.dtype, FLOAT32)
        _widen(node)
    own = set(rounded.values()) | {name + "_down" for name in rounded.values()}
    for node in graph_def.node:
        if node.name not in own:
            node.input[:] = [_read(text, rounded) for text in node.input]
    return rounded


def _read(text: str, rounded: Dict[str, str]) -> str:
    port = parse_input(text)
    return text if port.output == CONTROL else rounded.get(str(port), text)


def _cast(graph_def: tf.GraphDef, text: str, name: str, source: int, target: int) -> str:
    node = graph_def.node.add(name=name, op="Cast")
    node.input.append(text)
    node.attr["SrcT"].type = source
    node.attr["DstT"].type = target
    return name


def _widen(node: tf.NodeDef) -> None:
    """Turn every half-precision attribute into float32, values included."""
    for attribute in node.attr.values():
        kind = attribute.WhichOneof("value")
        if kind == "type" and attribute.type in HALF:
            attribute.type = FLOAT32
        elif kind == "list" and attribute.list.type:
            attribute.list.type[:] = [
                FLOAT32 if dtype in HALF else dtype for dtype in attribute.list.type
            ]
        elif kind == "tensor" and attribute.tensor.dtype in HALF:
            attribute.tensor.CopyFrom(_float32(attribute.tensor))


def _float32(tensor: Any) -> Any:
    return changed(tensor, tf.float32)
