"""Changing a GraphDef: new nodes with names of their own, inputs and control inputs that are turned elsewhere."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import CONTROL, Consumer, Port, parse_input
from graphmp.policy.reason import Reason


class Editor:
    """A GraphDef that is being changed.

    Attributes:
        nodes: its nodes by name, new ones included.
        added: names of the new nodes and what each is for.
        changed: names of other nodes and why they were changed, where the new inputs alone don't say it.
    """

    def __init__(self, graph_def: tf.GraphDef):
        """Changes are made to `graph_def` itself."""
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
        """Adds a node and returns its first output. The name gets a number where it is taken.

        Args:
            name: the name that is wanted.
            op: its op type.
            inputs: what it reads, and what it waits for.
            reason: what it is for.
            device: where it is.
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
        """Adds a copy of a whole node, whose name must be free."""
        copy = self._graph_def.node.add()
        copy.CopyFrom(node)
        self.nodes[copy.name] = copy
        self.added[copy.name] = reason

    def make_identity(self, name: str, source: Port, dtype: int, wait: Iterable[Port] = ()) -> None:
        """Lets a node hand on another output under its own name, in place of what it did; its first output has the dtype."""
        node = self.nodes[name]
        del node.input[:]
        node.input.extend(str(port) for port in [source, *wait])
        for key in [key for key in node.attr if key not in ("_class", "_output_shapes")]:
            del node.attr[key]
        node.op = "Identity"
        node.attr["T"].type = dtype

    def unique(self, name: str) -> str:
        """The name itself, or with the first number that makes it one of its own."""
        number, found = 0, name
        while found in self.nodes:
            number += 1
            found = "%s_%d" % (name, number)
        return found

    def connect(self, name: str, slot: int, port: Port) -> None:
        """Lets a data input read another output."""
        self.nodes[name].input[slot] = str(port)

    def wait_for(self, name: str, others: Iterable[str]) -> None:
        """Adds control inputs, each once."""
        node = self.nodes[name]
        node.input.extend(
            text for text in ("^" + other for other in others) if text not in node.input
        )

    def read_instead(self, consumers: Iterable[Consumer], new: Port) -> None:
        """Turns data inputs to another output."""
        for consumer in consumers:
            self.connect(consumer.node, consumer.slot, new)

    def wait_instead(self, old: str, new: str, but: str) -> None:
        """Lets all nodes but one that wait for a node wait for another, once `finish` is called."""
        self._successors[old] = new
        self._waits_still.add(but)

    def finish(self) -> None:
        """Turns control inputs as they were told to, in one pass: a train op waits for every update."""
        for name, node in self.nodes.items():
            if name not in self._waits_still and any(
                text[1:] in self._successors for text in node.input if text.startswith("^")
            ):
                node.input[:] = [
                    "^" + self._successors.get(text[1:], text[1:]) if text.startswith("^") else text
                    for text in node.input
                ]

    def input(self, name: str, slot: int) -> Port:
        """The present source of a data input."""
        return parse_input(self.nodes[name].input[slot])

    def controls(self, name: str) -> List[Port]:
        """The control inputs of a node."""
        return [port for port in map(parse_input, self.nodes[name].input) if port.output == CONTROL]


def add_data_inputs(node: tf.NodeDef, inputs: Iterable[str]) -> None:
    """Adds data inputs to a node, behind those that it has and ahead of its control inputs."""
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
