"""Splitting a graph into parts that TensorFlow imports one by one.

Importing the whole takes thirty times the memory of the graph's file.

1. A part is a run of nodes in the graph's order. Its inputs from outside are placeholders of their
   dtype and recorded shape.
2. Nodes without inputs (constants, variables) are copied, and so are producers of references: a
   placeholder has neither value nor reference.
3. Colocations, and control inputs from outside, don't affect what a node computes; they are
   removed.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Set, Union

import tensorflow.compat.v1 as tf

from graphmp.graph.io.stored import StoredGraphDef
from graphmp.graph.shapes.shapes import recorded_shape
from graphmp.graph.structure.view import CONTROL, Port, nodes_by_name, parse_input
from graphmp.tf_hooks.op_defs import OpDefs, PortType, Signature


def parts(
    graph_def: Union[tf.GraphDef, StoredGraphDef], op_defs: OpDefs, size: int
) -> Iterator[tf.GraphDef]:
    """The parts of a graph, of a given number of nodes each plus copies.

    Raises:
        LookupError: for an input or a colocation that names no node, and for inputs of unknown
            type.
    """
    nodes = nodes_by_name(graph_def)
    names, signatures = list(nodes), _Signatures(nodes, op_defs)
    for start in range(0, len(names), size):
        part = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
        _Part(nodes, signatures, part).fill(names[start : start + size])
        yield part


class _Signatures(Dict[str, Signature]):
    """The types of nodes by name, each computed once: a restore op has thousands of consumers."""

    def __init__(self, nodes: Mapping[str, tf.NodeDef], op_defs: OpDefs):
        super().__init__()
        self._nodes, self._op_defs = nodes, op_defs

    def __missing__(self, name: str) -> Signature:
        signature = self._op_defs.signature(self._nodes[name])
        if signature is None:
            raise LookupError(name)
        self[name] = signature
        return signature


class _Part:
    def __init__(self, nodes: Mapping[str, tf.NodeDef], signatures: _Signatures, part: tf.GraphDef):
        self._nodes, self._signatures, self._part = nodes, signatures, part
        self._stand_ins: Dict[Port, str] = {}

    def fill(self, names: Sequence[str]) -> None:
        """Add nodes, and the nodes they need."""
        inside, waiting = set(names), list(names)
        while waiting:
            node = self._part.node.add()
            node.CopyFrom(self._nodes[waiting.pop()])
            self._drop_colocation(node)
            if any(text not in inside for text in node.input):
                node.input[:] = [
                    text
                    for text in [self._input(text, inside, waiting) for text in node.input]
                    if text
                ]

    def _input(self, text: str, inside: Set[str], waiting: List[str]) -> str:
        """The replacement of an input in the part.

        Empty for a control input from outside. New nodes are added to both.
        """
        port = parse_input(text)
        if port.node in inside:
            return text
        if port.output == CONTROL:
            return ""
        kind = self._signatures[port.node].outputs[port.output]
        if not kind.is_ref and not _is_source(self._nodes[port.node]):
            return self._stand_in(port, kind)
        inside.add(port.node)
        waiting.append(port.node)
        return text

    def _drop_colocation(self, node: tf.NodeDef) -> None:
        for data in node.attr["_class"].list.s if "_class" in node.attr else ():
            self._nodes[data.decode("utf-8").partition("loc:@")[2]]
        node.attr.pop("_class", None)

    def _stand_in(self, port: Port, kind: PortType) -> str:
        """The name of the placeholder for an output."""
        if port not in self._stand_ins:
            node = self._part.node.add(
                name="graphmp_stands_for/%d" % len(self._stand_ins), op="Placeholder"
            )
            node.attr["dtype"].type = kind.dtype
            shape = recorded_shape(self._nodes[port.node], port.output)
            if shape is not None:
                node.attr["shape"].shape.CopyFrom(shape)
            self._stand_ins[port] = node.name
        return self._stand_ins[port]


def _is_source(node: Any) -> bool:
    return not node.input or node.input[0].startswith("^")
