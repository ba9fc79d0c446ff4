"""Applying decisions: setting dtypes and inserting casts, on a copy; only here nodes change.

1. A painted unit's attribute becomes half: `Conv2D T=float32` -> `Conv2D T=float16`. FusedBatchNorm
   becomes V2, whose statistics stay float32.
2. Where the dtypes of an input and its producer differ, one cast for each tensor and dtype is
   inserted, `<tensor>_graphmp_float16`: `x (f32) -> MatMul (f16)` becomes `x -> x_graphmp_float16
   -> MatMul`.
3. A constant with half and float32 consumers gets a second copy; a large one a cast.
4. The cast of a loop invariant is placed before the loop: `Enter(x)` becomes `x -> cast -> Enter`,
   a second Enter.
5. What reads a variable's memory after a write has a cast of its own, in its loop, which waits for
   what it waits for (`graph/state/late_reads.py`).
6. A cast to half is placed on its producer's device, one to float32 on its consumer's: less is
   sent.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import sibling_name
from graphmp.graph.structure.contexts import Contexts
from graphmp.graph.structure.frames import is_invariant
from graphmp.graph.structure.values import changed, elements
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import BY_NAME, FLOAT32
from graphmp.policy.reason import CAST_DOWN, CAST_UP, SECOND_CONSTANT, SECOND_ENTER, Reason
from graphmp.rewrite.painting.paint import HALF, Paint
from graphmp.rewrite.units import OTHER, TypedGraph
from graphmp.tf_hooks.op_defs import WIDER

MOST_COPIED = 2**16  # elements of a constant that is copied rather than cast
# TensorFlow before 2.0 recorded other shapes for the last outputs of these; 2.21 refuses to import
# a graph with them.
STALE_SHAPES = frozenset(("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"))


class _Editor:
    def __init__(
        self,
        graph: TypedGraph,
        painted: List[Paint],
        compute_dtype: str,
        contexts: Contexts,
        target: tf.GraphDef,
    ):
        self._graph = graph
        self._half_units = {number for number, p in enumerate(painted) if p.colour == HALF}
        self._half = BY_NAME[compute_dtype]
        self._contexts = contexts
        self._target = target
        self._nodes = {node.name: node for node in target.node}
        self._made: Dict[Tuple[Port, int, Tuple[str, ...]], Port] = {}
        self.inserted: Dict[str, Reason] = {}

    def apply(self) -> None:
        names = list(self._nodes)
        for name in names:
            self._set_dtypes(self._nodes[name])
        for name in names:
            self._connect(name)
        self._contexts.write()

    def _set_dtypes(self, node: tf.NodeDef) -> None:
        units = [number for number in self._graph.units_of(node.name) if number in self._half_units]
        for number in units:
            _, attribute, place = self._graph.units[number]
            if place < 0:
                node.attr[attribute].type = self._half
            else:
                node.attr[attribute].list.type[place] = self._half
        if units and node.op == "Const":
            node.attr["value"].CopyFrom(self._halved(node))
        if units and node.op in WIDER:
            node.op = WIDER[node.op]
            node.attr["U"].type = FLOAT32
        if node.op in STALE_SHAPES and "_output_shapes" in node.attr:
            del node.attr["_output_shapes"]

    def _halved(self, node: tf.NodeDef) -> Any:
        result = tf.AttrValue()
        result.tensor.CopyFrom(changed(node.attr["value"].tensor, self._half))
        return result

    def _connect(self, name: str) -> None:
        node = self._nodes[name]
        for slot, port in enumerate(self._graph.view.inputs(name)):
            reader, writer = self._graph.reading(name, slot), self._graph.writer(port)
            if reader == OTHER or writer == OTHER:
                continue
            wanted = self._half if reader in self._half_units else FLOAT32
            if wanted != (self._half if writer in self._half_units else FLOAT32):
                late = self._graph.late.waits.get((name, slot), ())
                new = self._version(port, wanted, node, late)
                node.input[slot] = str(
                    new
                )  # data inputs precede control inputs: a slot is an index into the list
                self._contexts.enter(node, "%s:%d" % new)

    def _version(
        self, port: Port, dtype: int, reader: tf.NodeDef, late: Tuple[str, ...] = ()
    ) -> Port:
        """The output that holds a tensor in another dtype, created if missing.

        `late` are the nodes that it waits for.
        """
        key = (port, dtype, late)
        if key not in self._made:
            producer = self._nodes[port.node]
            if late:
                self._made[key] = self._cast(port, dtype, self._graph.places.of(port.node), late)
            elif (
                dtype == self._half
                and producer.op == "Const"
                and elements(producer.attr["value"].tensor) <= MOST_COPIED
            ):
                self._made[key] = self._second_constant(producer)
            elif is_invariant(producer):
                self._made[key] = self._second_enter(producer, dtype)
            else:
                self._made[key] = self._cast(
                    port,
                    dtype,
                    self._graph.places.of(port.node if dtype == self._half else reader.name),
                )
        return self._made[key]

    def _cast(self, port: Port, dtype: int, device: str, late: Tuple[str, ...] = ()) -> Port:
        node = self._add(port, "Cast", CAST_UP if dtype == FLOAT32 else CAST_DOWN, dtype)
        node.input.extend([str(port), *("^" + name for name in late)])
        node.device = device
        node.attr["SrcT"].type = FLOAT32 if dtype == self._half else self._half
        node.attr["DstT"].type = dtype
        self._contexts.add(node.name, self._nodes[port.node])
        return Port(node.name, 0)

    def _second_constant(self, constant: tf.NodeDef) -> Port:
        node = self._add(
            Port(constant.name, 0),
            "Const",
            SECOND_CONSTANT,
            self._half,
        )
        node.input.extend(constant.input)
        node.device = constant.device
        node.attr["dtype"].type = self._half
        node.attr["value"].CopyFrom(self._halved(constant))
        self._contexts.add(node.name, constant)
        return Port(node.name, 0)

    def _second_enter(self, enter: tf.NodeDef, dtype: int) -> Port:
        source = self._graph.view.inputs(enter.name)[0]
        found = self._half if self._graph.writer(source) in self._half_units else FLOAT32
        outside = source if found == dtype else self._version(source, dtype, enter)
        node = self._add(Port(enter.name, 0), "Enter", SECOND_ENTER, dtype)
        node.input.append(str(outside))
        node.device = enter.device
        for key in enter.attr:
            if key not in ("_class", "_output_shapes"):
                node.attr[key].CopyFrom(enter.attr[key])
        node.attr["T"].type = dtype
        self._contexts.bring_in(node.name, enter.name, "%s:%d" % outside)
        return Port(node.name, 0)

    def _add(self, port: Port, op: str, kind: str, dtype: int) -> tf.NodeDef:
        base = sibling_name(port.node, port.output, dtype)
        name, number = base, 0
        while name in self._nodes:
            number += 1
            name = "%s_%d" % (base, number)
        node = self._target.node.add(name=name, op=op)
        self._nodes[name] = node
        self.inserted[name] = Reason(kind)
        return node


def apply(
    graph: TypedGraph,
    painted: List[Paint],
    compute_dtype: str,
    contexts: Contexts,
    target: tf.GraphDef,
) -> Dict[str, Reason]:
    """Change `target`, a copy of the painted graph.

    Returns:
        The inserted nodes and the purpose of each.
    """
    editor = _Editor(graph, painted, compute_dtype, contexts, target)
    editor.apply()
    return editor.inserted


def stale(graph: TypedGraph) -> List[str]:
    """Nodes whose recorded shapes a TensorFlow may refuse; `apply` removes the shapes."""
    return [
        name
        for name, node in graph.view.nodes.items()
        if node.op in STALE_SHAPES and "_output_shapes" in node.attr
    ]
