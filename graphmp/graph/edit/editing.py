"""Editing a GraphDef: new nodes with unique names, redirected inputs and control inputs."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import CONTROL, Consumer, Port, parse_input
from graphmp.policy.reason import Reason


class Editor:
    """A GraphDef under change.

    Attributes:
        nodes: its nodes by name, new ones included.
        added: names of the new nodes, with the purpose of each.
        changed: names of other changed nodes, with the reason if the new inputs alone don't show
            it.
    """

    def __init__(self, graph_def: tf.GraphDef):
        """Edit `graph_def` in place."""
        self._graph_def = graph_def
        self.nodes: Dict[str, tf.NodeDef] = {node.name: node for node in graph_def.node}
        self.added: Dict[str, Optional[Reason]] = {}
        self.changed: Dict[str, Reason] = {}
        self._successors: Dict[str, str] = {}
        self._waits_still: Set[str] = set()

    def add(
        self,
        name: str,
        op: str,
        inputs: Iterable[Port] = (),
        reason: Optional[Reason] = None,
        device: str = "",
        **attributes: Any,
    ) -> Port:
        """Add a node and return its first output; a number is appended if the name is taken.

        Args:
            name: the preferred name.
            op: its op type.
            inputs: its data and control inputs.
            reason: its purpose.
            device: its device.
            **attributes: AttrValues, dtypes as numbers, bools, or TensorProtos.
        """
        node = self._graph_def.node.add(name=self.unique(name), op=op, device=device)
        node.input.extend(
            str(port) for port in sorted(inputs, key=lambda port: port.output == CONTROL)
        )
        for key, value in attributes.items():
            _set(node.attr[key], value)
        self.nodes[node.name] = node
        self.added[node.name] = reason
        return Port(node.name, 0)

    def put(self, node: tf.NodeDef, reason: Optional[Reason] = None) -> None:
        """Add a copy of a node, whose name must be free."""
        copy = self._graph_def.node.add()
        copy.CopyFrom(node)
        self.nodes[copy.name] = copy
        self.added[copy.name] = reason

    def make_identity(self, name: str, source: Port, dtype: int, wait: Iterable[Port] = ()) -> None:
        """Turn a node into an identity of another output, whose dtype its first output gets."""
        node = self.nodes[name]
        del node.input[:]
        node.input.extend(str(port) for port in [source, *wait])
        for key in [key for key in node.attr if key not in ("_class", "_output_shapes")]:
            del node.attr[key]
        node.op = "Identity"
        node.attr["T"].type = dtype

    def unique(self, name: str) -> str:
        """The name itself, or with the lowest number that makes it unique."""
        number, found = 0, name
        while found in self.nodes:
            number += 1
            found = "%s_%d" % (name, number)
        return found

    def connect(self, name: str, slot: int, port: Port) -> None:
        """Redirect a data input to another output."""
        self.nodes[name].input[slot] = str(port)

    def wait_for(self, name: str, others: Iterable[str]) -> None:
        """Add control inputs, each at most once."""
        node = self.nodes[name]
        node.input.extend(
            text for text in ("^" + other for other in others) if text not in node.input
        )

    def read_instead(self, consumers: Iterable[Consumer], new: Port) -> None:
        """Redirect data inputs to another output."""
        for consumer in consumers:
            self.connect(consumer.node, consumer.slot, new)

    def wait_instead(self, old: str, new: str, but: str) -> None:
        """Replace a control input by another in all nodes except one, once `finish` is called."""
        self._successors[old] = new
        self._waits_still.add(but)

    def finish(self) -> None:
        """Redirect the control inputs as requested, in one pass.

        A train op waits for every update.
        """
        for name, node in self.nodes.items():
            if name not in self._waits_still and any(
                text[1:] in self._successors for text in node.input if text.startswith("^")
            ):
                data = [text for text in node.input if not text.startswith("^")]
                waits = [
                    "^" + self._successors.get(text[1:], text[1:])
                    for text in node.input[len(data) :]
                ]
                node.input[:] = [*data, *dict.fromkeys(waits)]

    def input(self, name: str, slot: int) -> Port:
        """The present producer of a data input."""
        return parse_input(self.nodes[name].input[slot])

    def controls(self, name: str) -> List[Port]:
        """The control inputs of a node."""
        return [port for port in map(parse_input, self.nodes[name].input) if port.output == CONTROL]


def add_data_inputs(node: tf.NodeDef, inputs: Iterable[str]) -> None:
    """Append data inputs to a node, ahead of its control inputs."""
    data = [text for text in node.input if not text.startswith("^")]
    node.input[:] = [*data, *inputs, *(text for text in node.input if text.startswith("^"))]


def _set(attribute: Any, value: Any) -> None:
    if isinstance(value, tf.AttrValue):
        attribute.CopyFrom(value)
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.type = value
    else:
        attribute.tensor.CopyFrom(value)
