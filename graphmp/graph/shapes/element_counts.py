"""The number of elements of tensors: recorded shapes, compared across ops that keep it.

TensorFlow may know less of a tensor behind a Reshape than ahead of it, or more: of
`[?, 1152, 10]`, a Reshape to a computed shape and a Transpose, the one in the middle may have
five unknown dimensions. All three have the same number of elements. It is taken from the shape with
the largest product of known dimensions. If several have that product, shapes with more unknown
dimensions are preferred, since a Reshape may join a batch and time to one dimension; but shapes
with more than MOST_UNKNOWN come last.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.shapes import (
    UNKNOWN_DIMENSION,
    UNKNOWN_RANK,
    recorded_dimensions,
)
from graphmp.graph.structure.view import GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.policy import tables

MOST_UNKNOWN = 3  # a batch, and two dimensions of space or time
_RULES = tables.sets("shape_rules.txt")
_KEEP = _RULES["as_first"] | _RULES["keeps_count"]


class _Known(NamedTuple):
    """The facts in a recorded shape: the larger, the more is known."""

    product: int
    likely: bool
    unknown: int

    def elements(self, size: int) -> int:
        """Elements if each unknown dimension has this size."""
        return self.product * size**self.unknown


class ElementCounts:
    """Elements of the tensors of a graph body."""

    def __init__(
        self,
        view: GraphView,
        shapes: Optional[tf.GraphDef] = None,
        unknown: int = UNKNOWN_DIMENSION,
    ):
        """Reads nothing yet.

        Args:
            view: the graph.
            shapes: a graph with recorded shapes, by node name, if `view` lost them.
            unknown: the size of an unknown dimension.
        """
        self._view, self._unknown = view, unknown
        self._recorded = {} if shapes is None else {node.name: node for node in shapes.node}
        self._found: Dict[Port, Optional[int]] = {}
        self._made: Dict[str, Dict[Any, List[Port]]] = {}

    def of(self, port: Port) -> int:
        """The number of elements; 1,024 if nothing is known."""
        found = self.recorded(port)
        return UNKNOWN_RANK if found is None else found

    def recorded(self, port: Port) -> Optional[int]:
        """The number of elements; None if no tensor with the same number has a recorded rank."""
        if port not in self._found:
            self._settle(port)
        return self._found[port]

    def _settle(self, port: Port) -> None:
        """Find the number for a tensor, and for all that have the same."""
        own = self._known(port)
        alike = {port} if own is not None and not own.unknown else self._alike(port)
        known = [each for each in map(self._known, alike) if each is not None]
        elements = max(known).elements(self._unknown) if known else None
        self._found.update((each, elements) for each in alike)

    def _alike(self, port: Port) -> Set[Port]:
        """The tensors with as many elements, itself included."""
        return reached([port], self._beside)

    def _beside(self, port: Port) -> Iterator[Port]:
        yield from self._behind(port.node).get(port.output, ())
        if self._keeps(port.node):
            yield self._view.inputs(port.node)[0]

    def _behind(self, name: str) -> Dict[Any, List[Port]]:
        """The tensors that have as many elements as an output of a node and are made of it."""
        if name not in self._made:
            made: Dict[Any, List[Port]] = {}
            for consumer in self._view.consumers(name):
                if not consumer.slot and self._keeps(consumer.node):
                    made.setdefault(consumer.output, []).append(Port(consumer.node, 0))
            self._made[name] = made
        return self._made[name]

    def _keeps(self, name: str) -> bool:
        return self._view.nodes[name].op in _KEEP and bool(self._view.inputs(name))

    def _known(self, port: Port) -> Optional[_Known]:
        sizes = self._sizes(port)
        if sizes is None:
            return None
        product = functools.reduce(operator.mul, (size for size in sizes if size >= 0), 1)
        unknown = sum(size < 0 for size in sizes)
        return _Known(product, unknown <= MOST_UNKNOWN, unknown)

    def _sizes(self, port: Port) -> Optional[List[int]]:
        if not isinstance(port.output, int):  # an output of a function's node, by its name
            return None
        node = self._recorded.get(port.node, self._view.nodes[port.node])
        if node.op == "Const" and "value" in node.attr:
            return [dim.size for dim in node.attr["value"].tensor.tensor_shape.dim]
        return recorded_dimensions(node, port.output, -1)
