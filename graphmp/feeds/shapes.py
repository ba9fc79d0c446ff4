"""The shape of a made-up value: from the graph, its consumers, and a guess for the rest."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.feeds.uses import ValueUse
from graphmp.feeds.wanted import Dimensions, Shape, static_shape
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.layout import is_channels_first

OTHER_DIMENSION = 16
_TRANSPOSES = ("transpose_a", "adj_x", "transpose_b", "adj_y")  # the left factor's first


class Guess(NamedTuple):
    """Sizes of unknown dimensions.

    Attributes:
        first: of a first dimension.
        other: of all others.
        flat: whether one-dimensional tensors hold an element for each step of each example.
        part: a sequence has a step for so many of those that are fed, as after pooling.
        joined: whether a tensor has the shape of what it is combined with element by element.
    """

    first: int
    other: int = OTHER_DIMENSION
    flat: bool = False
    part: int = 1
    joined: bool = False

    def sizes(self, shape: Dimensions) -> List[int]:
        """The shape with its unknown dimensions filled in."""
        first = self.first * self.other if self.flat and len(shape) == 1 else self.first
        return [
            (self.other if axis else first) if size is None else size
            for axis, size in enumerate(shape)
        ]


class Shapes:
    """Static shapes of a graph's tensors, and the shapes that ops require.

    Attributes:
        graph: the imported graph.
        view: the graph that was imported.
    """

    def __init__(self, graph: tf.Graph, view: GraphView):
        self.graph = graph
        self.view = view

    def of(self, port: Port) -> Shape:
        """The static shape of a tensor."""
        return static_shape(self.graph.get_tensor_by_name("%s:%d" % port))

    def holds_integers(self, port: Port) -> bool:
        """Whether a tensor's dtype is an integer's."""
        return bool(self.graph.get_tensor_by_name("%s:%d" % port).dtype.is_integer)

    def operand(self, use: ValueUse, slot: int) -> Shape:
        """The static shape of a consumer's input."""
        return self.of(self.view.inputs(use.node.name)[slot])

    def logits(self, use: ValueUse) -> Shape:
        """The static shape of the logits of a loss; flattening may have lost the last dimension."""
        port = self.view.inputs(use.node.name)[0]
        shape = self.of(port)
        if self.view.nodes[port.node].op == "Reshape" and (not shape or shape[-1] is None):
            return self.of(self.view.inputs(port.node)[0]) or shape
        return shape

    def asked(self, use: ValueUse) -> Shape:
        """The shape that a consumer requires; None if it takes any."""
        rule = _ASKS.get((use.node.op, use.slot))
        return rule(self, use) if rule else None


def refined(shape: Shape, asked: List[Shape]) -> Dimensions:
    """A shape completed by its consumers' requirements; a scalar if its rank is unknown."""
    for wish in asked:
        if wish is not None and (shape is None or len(shape) == len(wish)):
            shape = (
                wish if shape is None else tuple(b if a is None else a for a, b in zip(shape, wish))
            )
    return () if shape is None else shape


def _matrix(shapes: Shapes, use: ValueUse) -> Shape:
    """The left factor of a matrix product: as many columns as the right one has rows."""
    right, transposed = (
        shapes.operand(use, 1),
        [name for name in _TRANSPOSES if name in use.node.attr and use.node.attr[name].b],
    )
    if right is None or len(right) != 2:
        return (None, None) if use.node.op == "MatMul" else None
    if transposed and transposed[0] in _TRANSPOSES[:2]:
        return (None, None)
    return (None, right[1] if transposed else right[0])


def _pictures(shapes: Shapes, use: ValueUse) -> Shape:
    """The input shape of a convolution: the channels of its filter, last or second."""
    filters = shapes.operand(use, 1)
    channels = filters[2] if filters and len(filters) == 4 else None
    first = is_channels_first(use.node)
    return (None, channels, None, None) if first else (None, None, None, channels)


def _logits(shapes: Shapes, use: ValueUse) -> Shape:
    """Labels of the same size as the logits."""
    return shapes.logits(use)


def _all_but_last(shapes: Shapes, use: ValueUse) -> Shape:
    """Labels that are column indices of the logits."""
    return (shapes.logits(use) or ())[:-1] or None


def _squeezed(shapes: Shapes, use: ValueUse) -> Shape:
    """Dimensions that are squeezed out have size 1."""
    rank, axes = len(shapes.of(use.port) or ()), use.node.attr["squeeze_dims"].list.i
    lost = {axis % rank for axis in axes if -rank <= axis < rank}
    return tuple(1 if axis in lost else None for axis in range(rank)) or None


def _vector(shapes: Shapes, use: ValueUse) -> Shape:
    return (None,)


# By op type and input.
_ASKS: Dict[Tuple[str, int], Callable[[Shapes, ValueUse], Optional[Dimensions]]] = {
    ("BatchMatMul", 0): _matrix,
    ("BatchMatMulV2", 0): _matrix,
    ("BatchMatMulV3", 0): _matrix,
    ("CTCLoss", 3): _vector,
    ("Conv2D", 0): _pictures,
    ("Gather", 1): _vector,
    ("GatherV2", 1): _vector,
    ("MatMul", 0): _matrix,
    ("OneHot", 0): _vector,
    ("ResourceGather", 1): _vector,
    ("ReverseSequence", 1): _vector,
    ("SoftmaxCrossEntropyWithLogits", 1): _logits,
    ("SparseSoftmaxCrossEntropyWithLogits", 1): _all_but_last,
    ("Squeeze", 0): _squeezed,
}
