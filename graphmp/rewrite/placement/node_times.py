"""The cost model of cast placement where times were measured: nanoseconds of ops and casts.

1. A node takes its measured or predicted time, in the dtype that it computes in.
2. A cast takes the time of one of its size; one serves all consumers of its dtype, a constant needs
   none.
3. All of it counts once for each run in a step.
4. A tensor sent to another device takes the time of its bytes on the network.
5. Nodes that no step runs take no time.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.shapes import dimensions_of, recorded_shape
from graphmp.graph.structure.frames import is_invariant
from graphmp.graph.structure.view import Port
from graphmp.naming import in_body
from graphmp.rewrite.placement.costs import SAVED_BYTES, TensorCost
from graphmp.rewrite.units import TypedGraph
from graphmp.tuning.costs import OperationSignature, TensorType
from graphmp.tuning.prediction import NOTHING, NodeTime, Prediction
from graphmp.tuning.signatures import elements, signature_of

SENT = 0.8  # nanoseconds for a byte sent: 10 Gbit Ethernet moves 1.25 GB/s


class NodeTimes:
    """The times of one graph body.

    Attributes:
        body: its name.
    """

    def __init__(
        self, graph: TypedGraph, prediction: Prediction, body: str, is_measured: bool = False
    ):
        """Nothing is computed yet.

        Args:
            graph: the body.
            prediction: times by measured costs.
            body: its name: the function's, empty for the main graph.
            is_measured: whether the costs are of the same graph, so that a node that they don't
                name wasn't run.
        """
        self._is_measured = is_measured
        self._graph = graph
        self._prediction = prediction
        self.body = body
        self._found: Dict[str, NodeTime] = {}

    def node(self, name: str) -> NodeTime:
        """The time of a node in a step."""
        if name not in self._found:
            self._found[name] = self._node(name)
        return self._found[name]

    def in_step(self, name: str) -> bool:
        """Whether the measured step ran a node; true if that isn't known."""
        if name in self._graph.idle:
            return False
        return not self._is_measured or in_body(self.body, name) in self._prediction.costs.nodes

    def tensor(self, port: Port) -> TensorCost:
        """The cost of casting and sending a tensor."""
        node = self._graph.view.nodes[port.node]
        overhead = self._prediction.costs.overhead
        if node.op == "Const":
            return TensorCost(0.0, 0.0, 0.0, 0.0, overhead, 0.0)
        source = self._graph.view.inputs(port.node)[0] if is_invariant(node) else port
        runs = self._runs(source.node)
        idle = port.node in self._graph.idle
        size = elements(self._type(port), self._prediction.costs.batch_size)
        down, up = (
            overhead if idle else runs * self._prediction.cast(to, size)
            for to in ("half", "float32")
        )
        sent = 0.0 if idle else SENT * SAVED_BYTES * size * runs
        return TensorCost(0.0, 0.0, down, up, overhead, sent)

    def _node(self, name: str) -> NodeTime:
        if name in self._graph.idle:
            return NOTHING
        signature = signature_in(self._graph, name)
        path = in_body(self.body, name)
        return self._prediction.node(path, signature, self._graph.trips(name))

    def _runs(self, name: str) -> float:
        known = self._prediction.costs.nodes.get(in_body(self.body, name))
        return self._graph.trips(name) if known is None else known.runs

    def _type(self, port: Port) -> TensorType:
        """The type of a tensor: as measured, else as recorded in the graph."""
        known = self._prediction.costs.nodes.get(in_body(self.body, port.node))
        if known is not None and known.measurement >= 0:
            outputs = self._prediction.costs.measurements[known.measurement].signature.outputs
            if port.output < len(outputs) and outputs[port.output].shape is not None:
                return outputs[port.output]
        return TensorType("float32", shape_of(self._graph.view.nodes[port.node], port.output))


def signature_in(graph: TypedGraph, name: str) -> OperationSignature:
    """The signature of a node, by the shapes that its graph records."""
    types = graph.signature(name)
    inputs, outputs = graph.view.inputs(name), () if types is None else types.outputs
    read = (
        []
        if types is None
        else [
            TensorType(
                tf.as_dtype(kind.dtype).base_dtype.name,
                shape_of(graph.view.nodes[port.node], port.output),
            )
            for kind, port in zip(types.inputs, inputs)
        ]
    )
    node = graph.view.nodes[name]
    written = [
        TensorType(tf.as_dtype(kind.dtype).base_dtype.name, shape_of(node, place))
        for place, kind in enumerate(outputs)
    ]
    return signature_of(node, read, written)


def shape_of(node: tf.NodeDef, output: int) -> Optional[Tuple[Optional[int], ...]]:
    """The shape of an output; None for an unknown rank, or dimension."""
    if node.op == "Const" and "value" in node.attr:
        return tuple(int(dim.size) for dim in node.attr["value"].tensor.tensor_shape.dim)
    shape = recorded_shape(node, output)
    return None if shape is None else dimensions_of(shape)
