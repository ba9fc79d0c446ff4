"""Units of painting: each float32 type attribute of a node, painted float32 or half as a whole.

A FusedBatchNormV3 has two, `T` for the data and `U` for the statistics; a node that calls a
function has one for each float32 value in its lists. Ports whose type is fixed by the op belong to
no unit.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.element_counts import ElementCounts
from graphmp.graph.shapes.probabilities import probabilities
from graphmp.graph.shapes.shapes import records_shapes
from graphmp.graph.shapes.trip_counts import Counts, trip_counts, trips
from graphmp.graph.state import late_reads
from graphmp.graph.state.devices import Places
from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.frames import Frames, frames
from graphmp.graph.structure.gradient_names import differentiated
from graphmp.graph.structure.view import Consumer, GraphView, Port
from graphmp.once import once
from graphmp.patterns import limited_time, patterns
from graphmp.policy.dtypes import FLOAT32, FLOATS, RESOURCE, VARIANT
from graphmp.policy.traits import FORGETS_VALUES, HANDLE_OPS
from graphmp.tf_hooks.op_defs import OpDefs, PortType, Signature

_HANDLE_ATTRIBUTES = (
    "dtype",
    "elem_type",
    "element_dtype",
)  # no port of TensorArrayV3 shows the dtype of its elements
FIXED, OTHER = -1, -2  # ports without a unit: always float32, never float32


class Unit(NamedTuple):
    """A float32 type attribute of a node; `place` is the index in a list attribute, else -1."""

    node: str
    attribute: str
    place: int = -1


class _Layout(NamedTuple):
    """The units of a node's ports; nodes with the same types share a layout.

    Attributes:
        signature: the types of its ports; None if unknown.
        inputs: for each input FIXED, OTHER or the index of its unit, counted from the node's first.
        outputs: the same for each output.
        units: the attribute of each unit, and its index there.
    """

    signature: Optional[Signature]
    inputs: Tuple[int, ...]
    outputs: Tuple[int, ...]
    units: Tuple[Tuple[str, int], ...]


class TypedGraph:
    """A graph body with its units.

    Attributes:
        view: nodes and edges.
        places: the devices of its nodes.
        elements: the number of elements of its tensors.
        units: all units; elsewhere they are denoted by their index here.
        unknown: nodes with an unknown op.
        gradients: nodes of gradient code.
        idle: nodes that no step runs.
        unread: nodes of gradient code whose values aren't used, run or not.
        joined: nodes that pass gradients to all-reduces which may run in half, and these.
        forward: the forward nodes of gradient code without telling names.
        late: reads of variables that come after a write.
        carried: nodes between a variable's value and a write that takes it, element by element.
        trainable: the trainable variables; None if unknown.
    """

    def __init__(
        self, graph_def: tf.GraphDef, op_defs: OpDefs, shapes: Optional[tf.GraphDef] = None
    ):
        """Analyse types once.

        Args:
            graph_def: the graph.
            op_defs: definitions of its ops.
            shapes: a graph with the same loops, for their iterations if `graph_def` records no
                shapes.

        Raises:
            GraphmpError: GMP008 for duplicate names and missing inputs.
        """
        self.view = GraphView(graph_def)
        self.places = Places(self.view)
        self.units: List[Unit] = []
        self.unknown: List[str] = []
        self.gradients: AbstractSet[str] = frozenset()
        self.idle: AbstractSet[str] = frozenset()
        self.unread: AbstractSet[str] = frozenset()
        self.joined: AbstractSet[str] = frozenset()
        self.forward: Mapping[str, str] = {}
        self.late = late_reads.NONE
        self.carried: AbstractSet[str] = frozenset()
        self.trainable: Optional[AbstractSet[str]] = None
        self._layouts: Dict[str, _Layout] = {}
        self._first: Dict[str, int] = {}
        self._loops: Optional[Tuple[Frames, Counts]] = None
        self._shapes = None if shapes is None or records_shapes(graph_def) else shapes
        self.elements = ElementCounts(self.view, shapes)
        shared: Dict[int, _Layout] = {}  # by the identity of a signature, which an OpDefs keeps
        for name, node in self.view.nodes.items():
            signature, slots = op_defs.signature(node), len(self.view.inputs(name))
            if signature is None or len(signature.inputs) != slots:
                self.unknown.append(name)
                self._layouts[name] = _Layout(None, (FIXED,) * slots, (), ())
                continue
            layout = shared.get(id(signature)) or shared.setdefault(
                id(signature), _layout(node, signature)
            )
            self._layouts[name] = layout
            if layout.units:
                self._first[name] = len(self.units)
                self.units.extend(Unit(name, attribute, place) for attribute, place in layout.units)

    def signature(self, name: str) -> Optional[Signature]:
        """The types of a node's ports; None if unknown."""
        return self._layouts[name].signature

    def differentiated(self, name: str) -> Optional[str]:
        """The forward node that a node of gradient code belongs to."""
        return differentiated(name, self.view.nodes.keys(), self.forward)

    def node(self, unit: int) -> tf.NodeDef:
        """The node that a unit belongs to."""
        return self.view.nodes[self.units[unit].node]

    def units_of(self, name: str) -> Sequence[int]:
        """The units of a node."""
        first = self._first.get(name, 0)
        return range(first, first + len(self._layouts[name].units))

    def reader(self, consumer: Consumer) -> int:
        """The unit of an input; FIXED or OTHER if it has none."""
        return self.reading(consumer.node, consumer.slot)

    def reading(self, name: str, slot: int) -> int:
        """The unit of a node's input slot; FIXED or OTHER if it has none."""
        number = self._layouts[name].inputs[slot]
        return number if number < 0 else self._first[name] + number

    def writer(self, port: Port) -> int:
        """The unit of an output; FIXED for an unknown op."""
        outputs = self._layouts[port.node].outputs
        number = FIXED if port.output >= len(outputs) else outputs[port.output]
        return number if number < 0 else self._first[port.node] + number

    def float32_tensors(self) -> Iterator[Tuple[Port, int, List[Consumer]]]:
        """Every float32 output with consumers.

        Its port, its unit, and the float32 inputs that read it.
        """
        for name in self.view.nodes:
            by_output: Dict[int, List[Consumer]] = {}
            for consumer in self.view.consumers(name):
                if self._layouts[consumer.node].inputs[consumer.slot] != OTHER:
                    by_output.setdefault(consumer.output, []).append(consumer)
            for output, consumers in by_output.items():
                port = Port(name, output)
                if self.writer(port) != OTHER:
                    yield port, self.writer(port), consumers

    def downstream(self, unit: int) -> Iterator[int]:
        """The units of consumers of a unit."""
        name = self.units[unit].node
        outputs, number = self._layouts[name].outputs, unit - self._first[name]
        for consumer in self.view.consumers(name):
            if outputs[consumer.output] == number and self.reader(consumer) >= 0:
                yield self.reader(consumer)

    def upstream(self, unit: int) -> Iterator[int]:
        """The units of producers of a unit."""
        name = self.units[unit].node
        inputs, number = self._layouts[name].inputs, unit - self._first[name]
        for slot, port in enumerate(self.view.inputs(name)):
            if inputs[slot] == number and self.writer(port) >= 0:
                yield self.writer(port)

    @once
    def varying(self) -> AbstractSet[str]:
        """Nodes that depend on data, a variable's value or random numbers.

        The others are made of constants, shapes and a dropout's probability.
        """
        random = [name for name, node in self.view.nodes.items() if kind(node.op) == "random"]
        return self._depending([*self._sources(), *random])

    @once
    def with_gradients(self) -> AbstractSet[str]:
        """Nodes that depend on a variable or floating-point data, and so may have gradients."""
        return self._depending([name for name in self._sources() if self._gives_floats(name)])

    def _sources(self) -> List[str]:
        """Nodes that read nothing, except constants and a dropout's probability."""
        view, fixed = self.view, probabilities(self.view)
        return [
            name
            for name, node in view.nodes.items()
            if not view.inputs(name) and node.op != "Const" and name not in fixed
        ]

    def _depending(self, sources: Sequence[str]) -> AbstractSet[str]:
        return self.view.followed(
            sources, lambda name: self.view.nodes[name].op not in FORGETS_VALUES
        )

    def _gives_floats(self, name: str) -> bool:
        signature = self.signature(name)
        return signature is None or any(
            port.dtype in (*FLOATS, RESOURCE, VARIANT) for port in signature.outputs
        )

    def frame(self, name: str) -> Tuple[str, ...]:
        """The while loops that contain a node, outermost first."""
        return self._looped()[0].get(name, ())

    def trips(self, name: str) -> int:
        """The runs of a node in a step.

        A loop with an unknown number of iterations counts as 32.
        """
        return trips(*self._looped(), name)

    def _looped(self) -> Tuple[Frames, Counts]:
        if self._loops is None:
            self._loops = (
                frames(self.view),
                trip_counts(self.view if self._shapes is None else GraphView(self._shapes)),
            )
        return self._loops


def _layout(node: tf.NodeDef, signature: Signature) -> _Layout:
    units: Dict[Tuple[str, int], int] = {}

    def number(port: PortType) -> int:
        if port.dtype != FLOAT32:
            return OTHER
        if not port.attribute or port.is_ref:
            return FIXED
        return units.setdefault((port.attribute, port.place), len(units))

    inputs, outputs = tuple(map(number, signature.inputs)), tuple(map(number, signature.outputs))
    for attribute in _HANDLE_ATTRIBUTES if node.op in HANDLE_OPS else ():
        if attribute in node.attr:
            number(PortType(node.attr[attribute].type, attribute))
    return _Layout(signature, inputs, outputs, tuple(units))


def matched(graph: TypedGraph, texts: Sequence[str]) -> Dict[str, str]:
    """The nodes that a user's regular expressions match, each with the first of them.

    Raises:
        GraphmpError: GMP002 for an expression that takes too long.
    """
    found = patterns(texts)
    if not found:
        return {}
    with limited_time():
        names = dict.fromkeys(unit.node for unit in graph.units)
        first = {n: next((each.pattern for each in found if each.search(n)), "") for n in names}
    return {name: text for name, text in first.items() if text}
