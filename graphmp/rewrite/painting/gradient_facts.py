"""Facts about denied ops in gradient code, from the ops that they differentiate.

The gradient of an addition or product sums over broadcast dimensions: mostly over none.
"""

from __future__ import annotations

from typing import Optional

from graphmp.graph.shapes.shapes import recorded_size
from graphmp.graph.shapes.symbolic_shapes import SymbolicShapes
from graphmp.graph.state.steady_variables import steady_variables
from graphmp.graph.structure.view import Port
from graphmp.policy.traits import BOUNDED_IN_GRADIENT
from graphmp.rewrite.units import TypedGraph


class GradientFacts:
    """Facts about the gradient code of a graph body."""

    def __init__(self, graph: TypedGraph):
        """`graph` is the body."""
        self._graph = graph
        self._shapes = SymbolicShapes(graph.view, steady_variables(graph.view))

    def is_indifferent(self, name: str) -> bool:
        """Whether the dtype of a Sum makes no numerical difference.

        It adds nothing up, or is a constant's gradient, which isn't used.
        """
        return (
            self._adds_nothing(name)
            or self._shapes.reduces_nothing(name)
            or self._is_constants_gradient(name)
        )

    def is_bounded(self, name: str) -> bool:
        """Whether an op's result is bounded, by the op that it differentiates (`traits.txt`)."""
        nodes = self._graph.view.nodes
        if not any(pair.endswith("/" + nodes[name].op) for pair in BOUNDED_IN_GRADIENT):
            return False
        forward = self._forward(name)
        return (
            forward != "" and "%s/%s" % (nodes[forward].op, nodes[name].op) in BOUNDED_IN_GRADIENT
        )

    def _forward(self, name: str) -> str:
        """The node whose gradient an op belongs to; empty if there is none."""
        return (name in self._graph.gradients and self._graph.differentiated(name)) or ""

    def _adds_nothing(self, name: str) -> bool:
        """Whether a Sum's output, maybe reshaped, is as large as its input, by recorded shapes."""
        view = self._graph.view
        size = self._size(view.inputs(name)[0])
        reshapes = [
            c.node
            for c in view.consumers(name)
            if view.nodes[c.node].op == "Reshape" and c.slot == 0
        ]
        return size is not None and size in [self._size(Port(n, 0)) for n in [name] + reshapes]

    def _is_constants_gradient(self, name: str) -> bool:
        """Whether a Sum's result is unread, and the gradient of something without a gradient."""
        view = self._graph.view
        forward = self._forward(name) if name in self._graph.unread else ""
        if not forward:
            return False
        axes = view.inputs(name)[1]
        constants = [
            port for port in view.inputs(forward) if port.node not in self._graph.with_gradients
        ]
        if (
            view.nodes[axes.node].op == "BroadcastGradientArgs"
        ):  # its outputs are in the order of the operands
            return (
                axes.output < len(view.inputs(forward))
                and view.inputs(forward)[axes.output] in constants
            )
        size = self._size(Port(name, 0))
        return size is not None and size in [self._size(port) for port in constants]

    def _size(self, port: Port) -> Optional[int]:
        return recorded_size(self._graph.view.nodes[port.node], port.output)
