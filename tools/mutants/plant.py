"""A copy of a converted graph with a fault in it, and whether TensorFlow accepts it."""

from __future__ import annotations

import re
from typing import Any, Container, Iterable, List, NamedTuple, Optional, Set

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.view import Port, parse_input
from graphmp.tf_hooks.internals import load_graph
from mutants.subject import Slot, Subject

_SHAPES = "_output_shapes"
_STALE = re.compile(r"Node '([^']+)' has an _output_shapes attribute inconsistent")


class Mutant(NamedTuple):
    """A graph with a fault.

    Attributes:
        name: the class of the fault.
        graph: the MetaGraphDef.
        what: the fault in a line.
    """

    name: str
    graph: tf.MetaGraphDef
    what: str


class Plant:
    """A copy of a subject's graph that is being changed.

    Attributes:
        subject: the source of the copy.
        graph: the copy.
        touched: names of the nodes that were changed or added.
        what: the description of the changes.
    """

    def __init__(self, subject: Subject):
        self.subject = subject
        self.graph = tf.MetaGraphDef()
        self.graph.CopyFrom(subject.converted)
        self.touched: Set[str] = set()
        self.what: List[str] = []
        self._added: Any = {}

    def said(self, text: str, *values: Any) -> Plant:
        """Describe a change; return self."""
        self.what.append(text % values)
        return self

    def node(self, name: str) -> Any:
        """A node to change."""
        self.touched.add(name)
        return self.peek(name)

    def peek(self, name: str) -> Any:
        """A node as it is now."""
        return (
            self._added[name]
            if name in self._added
            else self.graph.graph_def.node[self.subject.place[name]]
        )

    def connect(self, slot: Slot, port: Port) -> None:
        """Connect a data input to another output."""
        self.node(slot.node).input[slot.slot] = str(port)

    def read_instead(self, slots: Iterable[Slot], port: Port) -> None:
        """Connect data inputs to another output."""
        for slot in slots:
            self.connect(slot, port)

    def add(self, name: str, op: str, inputs: Iterable[Any] = (), **attributes: Any) -> Port:
        """Add a node below graphmp/, with a number added to a name that is taken."""
        name, number = "graphmp/" + name, 0
        while name in self.subject.place or name in self._added:
            number += 1
            name = "%s_%d" % (name.rstrip("0123456789_") if number > 1 else name, number)
        node = self.graph.graph_def.node.add(name=name, op=op)
        node.input.extend(str(port) for port in inputs)
        for key, value in attributes.items():
            if isinstance(value, (bool, np.bool_)):
                node.attr[key].b = bool(value)
            elif isinstance(value, int):
                node.attr[key].type = value
            else:
                node.attr[key].CopyFrom(value)
        self._added[name] = node
        self.touched.add(name)
        return Port(name, 0)

    def constant(self, name: str, value: Any, dtype: int) -> Port:
        """Add a constant."""
        attribute = tf.AttrValue()
        attribute.tensor.CopyFrom(tf.make_tensor_proto(value, tf.as_dtype(dtype)))
        return self.add(name, "Const", dtype=dtype, value=attribute)

    def remove(self, names: Container[str]) -> None:
        """Take nodes out of the graph."""
        nodes = self.graph.graph_def.node
        kept = [node for node in nodes if node.name not in names]
        del nodes[:]
        nodes.extend(kept)

    def drop_input(self, slot: Slot) -> None:
        """Remove an input from a list whose length is the attribute N."""
        node = self.node(slot.node)
        del node.input[slot.slot]
        node.attr["N"].i -= 1

    def wait(self, name: str, other: str) -> None:
        """Add a control input."""
        node = self.node(name)
        if "^" + other not in node.input:
            node.input.append("^" + other)

    def wait_no_longer(self, name: str, other: str) -> None:
        """Drop a control input."""
        node = self.node(name)
        node.input[:] = [text for text in node.input if text != "^" + other]


def finished(name: str, plant: Optional[Plant]) -> Optional[Mutant]:
    """The mutant; None if the graph is unchanged, or TensorFlow wouldn't import or run it."""
    if (
        plant is None
        or serialize(plant.graph) == plant.subject.data
        or not _stay_in_their_loops(plant)
        or not _loads(plant.graph.graph_def)
    ):
        return None
    return Mutant(name, plant.graph, "; ".join(plant.what))


def _loads(graph_def: tf.GraphDef) -> bool:
    """Whether TensorFlow imports a graph.

    Recorded shapes changed by a fault are dropped, as if the graph were exported anew.
    """
    while True:
        try:
            load_graph(graph_def)
            return True
        except Exception as error:  # TensorFlow raises errors of many types
            stale = _STALE.search(str(error))
            named = [
                node
                for node in graph_def.node
                if stale and node.name == stale.group(1) and _SHAPES in node.attr
            ]
            if not named:
                return False
            del named[0].attr[_SHAPES]


def _stay_in_their_loops(plant: Plant) -> bool:
    """Whether each changed node has all its inputs in its own while loop.

    The importer doesn't check this.
    """
    return not plant.subject.frames or all(_stays(plant, name) for name in plant.touched)


def _stays(plant: Plant, name: str) -> bool:
    found = {_frame(plant, other) for other in _before(plant, name)}
    if name in plant.subject.place:
        view = plant.subject.view
        found |= {
            plant.subject.frame(other)
            for other in [port.node for port in view.inputs(name)] + list(view.controls(name))
        }
    return len(found) <= 1


def _frame(plant: Plant, name: str) -> Any:
    """The while loop of a node's outputs; for an added node, that of its inputs."""
    while name not in plant.subject.place:
        before = _before(plant, name)
        if not before:
            return ()
        name = before[0]
    return plant.subject.frame(name)


def _before(plant: Plant, name: str) -> List[str]:
    return [parse_input(text).node for text in plant.peek(name).input]
