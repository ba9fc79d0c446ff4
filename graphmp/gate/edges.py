"""Edges: the number and order of inputs, the slots they read, and what `_class` names."""

from __future__ import annotations

from typing import Any, Dict, Iterator

from graphmp.gate.nodes import RE_EXPORT, is_text, refused, shown
from graphmp.graph.structure.view import GraphView
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.wording import plural, with_article

_LOCATION = b"loc:@"


class Outputs:
    """The number of outputs of each node; a node of an unknown op has any number."""

    def __init__(self, view: GraphView, op_defs: OpDefs):
        self._view, self._op_defs = view, op_defs
        self._found: Dict[str, int] = {}

    def has(self, name: str, slot: int) -> bool:
        """Whether a node has an output of this number."""
        if name not in self._found:
            signature = self._op_defs.signature(self._view.nodes[name])
            self._found[name] = 1 << 31 if signature is None else len(signature.outputs)
        return slot < self._found[name]


def check_edges(view: GraphView, op_defs: OpDefs) -> Outputs:
    """Raise GMP008 for an edge or colocation that TensorFlow refuses; return the outputs."""
    outputs = Outputs(view, op_defs)
    for name, node in view.nodes.items():
        ports, controls = view.inputs(name), view.controls(name)
        if controls and any(text.startswith("^") for text in node.input[: len(ports)]):
            raise refused("node " + name, "a data input after a control input", RE_EXPORT)
        signature = op_defs.signature(node)
        if signature is not None and len(signature.inputs) != len(ports):
            given = (plural(len(ports), "data input"), node.op, len(signature.inputs))
            raise refused("node " + name, "%s, and this %s takes %d" % given, RE_EXPORT)
        for port in ports:
            if not outputs.has(port.node, port.output):
                found = "the input %s, an output that %s does not have"
                text = shown("%s:%d" % port), with_article(view.nodes[port.node].op)
                raise refused("node " + name, found % text, RE_EXPORT)
        for data in _classes(node):
            if not is_text(data):
                raise refused("node " + name, "a _class that is not UTF-8 text", RE_EXPORT)
            if data.startswith(_LOCATION) and data[len(_LOCATION) :].decode() not in view.nodes:
                found = "the _class %s, which names no node" % shown(data.decode())
                raise refused("node " + name, found, RE_EXPORT)
    return outputs


def _classes(node: Any) -> Iterator[bytes]:
    attributes = node.attr
    return iter(attributes["_class"].list.s if "_class" in attributes else ())
