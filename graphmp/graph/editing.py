"""Changing a GraphDef: new nodes with names of their own, inputs and control inputs that are turned elsewhere."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

import tensorflow.compat.v1 as tf

from graphmp.graph.view import CONTROL, Consumer, Port, parse_input


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
        self.added: Dict[str, str] = {}
        self.changed: Dict[str, str] = {}

    def add(self, name: str, op: str, inputs: Iterable[Port] = (), reason: str = "", device: str = "", **attributes: Any) -> Port:
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
        node.input.extend(str(port) for port in sorted(inputs, key=lambda port: port.output == CONTROL))
        for key, value in attributes.items():
            _set(node.attr[key], value)
        self.nodes[node.name] = node
        self.added[node.name] = reason
        return Port(node.name, 0)

    def put(self, node: tf.NodeDef, reason: str) -> None:
        """Adds a copy of a whole node, whose name must be free."""
        copy = self._graph_def.node.add()
        copy.CopyFrom(node)
        self.nodes[copy.name] = copy
        self.added[copy.name] = reason

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
        node.input.extend(text for text in ("^" + other for other in others) if text not in node.input)

    def take_over(self, old: str, new: Port, data: Iterable[Consumer], control: Iterable[str]) -> None:
        """Turns readers of a node's first output, and nodes that wait for it, to another node."""
        for consumer in data:
            self.connect(consumer.node, consumer.slot, new)
        for name in control:
            node = self.nodes[name]
            kept = [text for text in node.input if parse_input(text) != Port(old, CONTROL)]
            del node.input[:]
            node.input.extend(kept)
            self.wait_for(name, [new.node])

    def input(self, name: str, slot: int) -> Port:
        """What a data input reads now."""
        return parse_input(self.nodes[name].input[slot])

    def controls(self, name: str) -> List[Port]:
        """The control inputs of a node."""
        return [port for port in map(parse_input, self.nodes[name].input) if port.output == CONTROL]


def _set(attribute: Any, value: Any) -> None:
    if isinstance(value, tf.AttrValue):
        attribute.CopyFrom(value)
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.type = value
    else:
        attribute.tensor.CopyFrom(value)
