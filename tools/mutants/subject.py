"""One conversion with the facts that faults need, each found once for all of its mutants."""

from __future__ import annotations

import collections
import functools
import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.compare.roles import CLIP, SCALED, UNSCALE
from graphmp.graph.edit.mark import read_mark
from graphmp.graph.io.messages import serialize
from graphmp.graph.shapes import shapes
from graphmp.graph.state.state import State
from graphmp.graph.structure.frames import frames, outputs_frame
from graphmp.graph.structure.view import GraphView, Port
from graphmp.once import once
from graphmp.tf_hooks.op_defs import OpDefs, PortType, Signature

OWN = "graphmp/"
CAST = re.compile(r"_graphmp_(float16|bfloat16|float32|float64)(_\d+)?$")
FLOAT32, BOOL = tf.float32.as_datatype_enum, tf.bool.as_datatype_enum
INT32, INT64 = tf.int32.as_datatype_enum, tf.int64.as_datatype_enum
FLOATS = frozenset(dtype.as_datatype_enum for dtype in (tf.float16, tf.bfloat16, tf.float32))
_GATES = re.compile(
    r"^graphmp/(loss_scale(_\d+)?/(skip|apply_gradients)|moving_averages|accumulators|histograms)"
)
_SELECTS = ("Select", "SelectV2")
_SELECTED = re.compile(r"/selected(_\d+)?$")


class Slot(NamedTuple):
    """One data input: its node, and its index."""

    node: str
    slot: int


class Subject:
    """A conversion in which faults are planted.

    Attributes:
        name: its name.
        original: the graph before conversion.
        converted: the graph; faults are planted in copies of it.
        train: names of the ops that a training step runs in order; empty to find them.
        view: the nodes and edges of `converted`.
        before: those of `original`.
        defs: its op definitions.
        place: the index of each node in its GraphDef.
        outside: nodes that aren't the original's.
    """

    def __init__(
        self,
        name: str,
        original: tf.MetaGraphDef,
        converted: tf.MetaGraphDef,
        train: Sequence[str] = (),
    ):
        """Both graphs are left unchanged."""
        self.name, self.original, self.converted, self.train = (
            name,
            original,
            converted,
            tuple(train),
        )
        self.view, self.before = GraphView(converted.graph_def), GraphView(original.graph_def)
        self.defs = OpDefs(converted)
        self.place = {node.name: index for index, node in enumerate(converted.graph_def.node)}
        self.outside = [name for name in self.view.nodes if name not in self.before.nodes]
        self.descendants = functools.lru_cache(maxsize=256)(
            lambda name: self.view.descendants([name])
        )

    @once
    def data(self) -> bytes:
        """The converted graph as bytes."""
        return serialize(self.converted)

    @once
    def engine(self) -> str:
        """The engine that converted it, from its mark."""
        return str((read_mark(self.converted) or {}).get("engine", ""))

    @once
    def own(self) -> List[str]:
        """The nodes below graphmp/."""
        return [name for name in self.outside if name.startswith(OWN)]

    @once
    def casts(self) -> List[str]:
        """The casts between float32 and half precision added by the conversion."""
        return [
            name
            for name in self.outside
            if CAST.search(name) and self.view.nodes[name].op == "Cast"
        ]

    @once
    def rewired(self) -> List[str]:
        """The nodes of the original changed by the conversion."""
        return [
            name
            for name, node in self.before.nodes.items()
            if name in self.view.nodes and self.view.nodes[name].input != node.input
        ]

    @once
    def state(self) -> State:
        """The writers of each variable."""
        return State(self.converted, self.view, self.defs.get)

    @once
    def initializers(self) -> FrozenSet[str]:
        """The nodes that give variables their initial values; a collection may name lost ones."""
        return self.state.initializers & self.view.nodes.keys()

    @once
    def writes(self) -> List[str]:
        """Writes of the original's variables and accumulators; no initialisers, no restores."""
        restores = {
            name
            for name, node in self.view.nodes.items()
            if node.op in ("Restore", "RestoreSlice", "RestoreV2")
        }
        behind = self.view.descendants(restores, control=False) if restores else set()
        return [
            name for name in self.state.writes if not name.startswith(OWN) and name not in behind
        ]

    @once
    def updates(self) -> List[str]:
        """The writes computed from gradients: those behind nodes added by the conversion."""
        marked = [
            name for name in self.outside if self.view.nodes[name].op not in ("Const", "NoOp")
        ]
        behind = self.view.descendants(marked, control=False)
        return [name for name in self.writes if name in behind]

    def _own(self, pattern: Any, ops: Sequence[str]) -> List[str]:
        return [
            name for name in self.own if pattern.search(name) and self.view.nodes[name].op in ops
        ]

    @once
    def unscales(self) -> List[str]:
        """The divisions of gradients by a loss scale."""
        return self._own(UNSCALE, ("RealDiv", "Mul"))

    @once
    def seeds(self) -> List[str]:
        """The products of the seeds of gradients with a loss scale."""
        return self._own(SCALED, ("Mul",))

    @once
    def clips(self) -> List[str]:
        """The nodes of clips."""
        return [name for name in self.own if CLIP.search(name)]

    @once
    def selects(self) -> List[str]:
        """The gates that choose between a new value and one that changes nothing."""
        return self._own(_GATES, _SELECTS)

    @once
    def merges(self) -> List[str]:
        """The gates that take the one of such values that isn't dead: the old one, the new one."""
        return [name for name in self._own(_GATES, ("Merge",)) if _SELECTED.search(name)]

    @once
    def switches(self) -> List[str]:
        """The gates behind which nothing runs on a skipped step."""
        return self._own(_GATES, ("Switch",))

    @once
    def packs(self) -> List[str]:
        """The lists of values of a finite check: its flags, and what it checks as one."""
        return [
            name
            for name in self.own
            if (self.view.nodes[name].op == "Pack" and self.dtype(Port(name, 0)) == BOOL)
            or (
                self.view.nodes[name].op in ("AddN", "ConcatV2")
                and any(
                    self.view.nodes[reader.node].op == "IsFinite"
                    for reader in self.view.consumers(name)
                )
            )
        ]

    def elements(self, name: str) -> Sequence[Port]:
        """The inputs of a node that takes a list, without the axis along which it joins them."""
        ports = self.view.inputs(name)
        return ports[:-1] if self.view.nodes[name].op == "ConcatV2" else ports

    @once
    def frames(self) -> Dict[str, Tuple[str, ...]]:
        """The while frames of each node; empty if there are no loops."""
        return frames(self.view)

    def frame(self, name: str) -> Tuple[str, ...]:
        """The while frames of a node's outputs."""
        return outputs_frame(self.view, name)

    def signature(self, name: str) -> Optional[Signature]:
        """The types of a node's inputs and outputs."""
        return self.defs.signature(self.view.nodes[name])

    def port_type(self, port: Port) -> Optional[PortType]:
        """The type of an output; None if unknown."""
        found = self.signature(port.node)
        return (
            found.outputs[port.output]
            if found is not None and 0 <= port.output < len(found.outputs)
            else None
        )

    def is_reference(self, port: Port) -> bool:
        """Whether an output is a reference, or of unknown type."""
        found = self.port_type(port)
        return found is None or found.is_ref

    def dtype(self, port: Port) -> int:
        """The dtype of an output, as a number; 0 if unknown."""
        found = self.port_type(port)
        return found.dtype if found else 0

    @once
    def _shapes(self) -> Dict[str, Sequence[Any]]:
        found = shapes.inferred_shapes(self.converted.graph_def)
        return found or {
            name: node.attr["_output_shapes"].list.shape
            for name, node in self.view.nodes.items()
            if "_output_shapes" in node.attr
        }

    def shape(self, port: Port) -> Optional[Tuple[int, ...]]:
        """The static shape of an output, -1 for unknown dimensions; None if the rank is unknown."""
        found = self._shapes.get(port.node, ())
        if port.output >= len(found) or found[port.output].unknown_rank:
            return None
        return tuple(int(dim.size) for dim in found[port.output].dim)

    def kind(self, port: Port) -> Optional[Tuple[Any, ...]]:
        """The kind of an output: dtype, reference, shape and loop; None if unknown.

        Outputs of the same kind can replace each other.
        """
        found, shape = self.port_type(port), self.shape(port)
        if found is None or not found.dtype or shape is None:
            return None
        return found.dtype, found.is_ref, shape, self.frame(port.node)

    @once
    def ports(self) -> Dict[Tuple[Any, ...], List[Port]]:
        """All outputs by their kind."""
        found: Dict[Tuple[Any, ...], List[Port]] = collections.defaultdict(list)
        for name in self.view.nodes:
            signature = self.signature(name)
            for output in range(len(signature.outputs) if signature else 0):
                kind = self.kind(Port(name, output))
                if kind is not None:
                    found[kind].append(Port(name, output))
        return found

    def alike(self, port: Port, reader: str) -> List[Port]:
        """Other outputs of the same kind that a reader may read without creating a cycle."""
        behind = self.descendants(reader)
        return [
            other
            for other in self.ports.get(self.kind(port) or (), ())
            if other != port and other.node not in behind
        ]

    def slots(self, names: Sequence[str]) -> List[Slot]:
        """The data inputs of nodes, except those that another fault took away."""
        return [
            Slot(name, slot)
            for name in names
            if name in self.view.nodes
            for slot in range(len(self.view.inputs(name)))
        ]

    def read(self, slot: Slot) -> Port:
        """The output that a data input reads."""
        return self.view.inputs(slot.node)[slot.slot]

    def readers(self, port: Port) -> List[Slot]:
        """The data inputs that read an output."""
        return [
            Slot(c.node, c.slot) for c in self.view.consumers(port.node) if c.output == port.output
        ]

    @once
    def variables(self) -> List[str]:
        """The original's variables."""
        return [
            name
            for name, node in self.view.nodes.items()
            if node.op in ("VariableV2", "Variable", "VarHandleOp") and not name.startswith(OWN)
        ]

    @once
    def own_variables(self) -> List[str]:
        """The state of the loss scales; a second handle inside a loop is none."""
        return [
            name
            for name in self.own
            if self.view.nodes[name].op in ("VariableV2", "VarHandleOp") and not self.frame(name)
        ]

    def is_own(self, port: Port) -> bool:
        """Whether an output is that of a node below graphmp/."""
        return port.node.startswith(OWN)

    def is_float(self, port: Port) -> bool:
        """Whether an output is float32 or half precision, and no reference."""
        found = self.port_type(port)
        return found is not None and not found.is_ref and found.dtype in FLOATS
