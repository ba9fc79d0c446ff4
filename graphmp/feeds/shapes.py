"""The shape of a made-up value: from the graph, its consumers, and a guess for the rest."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.feeds.uses import ValueUse, integer, read_from_array, uses_of_shape
from graphmp.feeds.wanted import Dimensions, Shape, static_shape
from graphmp.graph.structure.values import constant
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.layout import is_channels_first
from graphmp.policy.op_sets import ARRAY_WRITES

OTHER_DIMENSION = 16
_TRANSPOSES = ("transpose_a", "adj_x", "transpose_b", "adj_y")  # the left factor's first

_MATMULS = ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "MatMul")
_REDUCTIONS = ("All", "Any", "ArgMax", "ArgMin", "Max", "Mean", "Min", "Prod", "Sum")
# Op types whose result has as many axes as their first input, and that tell how many.
_SAME_RANK = (
    "AvgPool", "Conv3D", "DepthwiseConv2dNative", "FusedBatchNorm", "FusedBatchNormV3", "LRN",
    "MaxPool", "MaxPool3D", "MirrorPad", "Pad", "PadV2", "ResizeBilinear", "ResizeNearestNeighbor",
    "Slice", "Softmax", "Tile", "Transpose",
)  # fmt: skip


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
        self._followed: Set[Port] = set()

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

    def hinted(self, uses: Sequence[ValueUse]) -> List[Shape]:
        """Shapes of a tensor of unknown rank with which its consumers run, of most axes first."""
        rules = [(_HINTS.get((use.node.op, use.slot)), use) for use in uses]
        found = [rule(self, use) for rule, use in rules if rule]
        return sorted(found, key=lambda shape: len(shape or ()), reverse=True)

    def element(self, port: Port) -> Dimensions:
        """The shape of a tensor that is read from an array, by its consumers."""
        if port in self._followed:
            return ()  # read in a loop that writes it
        self._followed.add(port)
        uses = uses_of_shape(self.view, port)
        found = refined(self.of(port), [*map(self.asked, uses), *self.hinted(uses)])
        self._followed.remove(port)
        return found


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


def _scalar(shapes: Shapes, use: ValueUse) -> Shape:
    """A predicate."""
    return ()


def _right_matrix(shapes: Shapes, use: ValueUse) -> Shape:
    """The right factor of a matrix product: as many rows as the left one has columns."""
    left = shapes.operand(use, 0)
    if left is None or len(left) < 2:
        return None
    first, second = (
        any(name in use.node.attr and use.node.attr[name].b for name in names)
        for names in (_TRANSPOSES[:2], _TRANSPOSES[2:])
    )
    rows = left[-2 if first else -1]
    return (None,) * (len(left) - 2) + ((None, rows) if second else (rows, None))


def _two_axes(shapes: Shapes, use: ValueUse) -> Shape:
    return (None, None)


def _result(shapes: Shapes, use: ValueUse) -> Shape:
    """Reshape: what has the shape of the result has as many elements as it takes."""
    return shapes.of(Port(use.node.name, 0))


def _rank_of_result(shapes: Shapes, use: ValueUse) -> Shape:
    result = shapes.of(Port(use.node.name, 0))
    return None if result is None else (None,) * len(result)


def _biased(shapes: Shapes, use: ValueUse) -> Shape:
    """BiasAdd: as many columns as there are biases."""
    return (None, (shapes.operand(use, 1) or (None,))[0])


def _reduced(shapes: Shapes, use: ValueUse) -> Shape:
    """Reductions and look-ups: the axes that they name."""
    axes = constant(shapes.view.nodes[shapes.view.inputs(use.node.name)[-1].node])
    if axes is None:
        return None
    return _first_axes(axes.ravel())


def _measured(shapes: Shapes, use: ValueUse) -> Shape:
    """Shape: the axes whose sizes are read."""
    view = shapes.view
    starts = [
        integer(view, view.inputs(reader.node)[1])
        for reader in view.consumers(use.node.name)
        if view.nodes[reader.node].op == "StridedSlice" and reader.slot == 0
    ]
    return _first_axes(start for start in starts if start is not None)


def _first_axes(read: Iterable[int]) -> Shape:
    """As many axes as there must be for these numbers of axes; None without any."""
    return (None,) * max([axis + 1 if axis >= 0 else -axis for axis in read], default=0) or None


def _sliced(shapes: Shapes, use: ValueUse) -> Shape:
    """StridedSlice: the axes that are indexed."""
    begin = shapes.operand(use, 1)
    new = bin(use.node.attr["new_axis_mask"].i | use.node.attr["ellipsis_mask"].i).count("1")
    return (None,) * ((begin[0] or 0) - new) or None if begin else None


def _unpacked(shapes: Shapes, use: ValueUse) -> Shape:
    """Unpack: as many parts as it gives, along its axis."""
    axis, part = use.node.attr["axis"].i, shapes.element(Port(use.node.name, 0))
    part += (None,) * ((axis if axis >= 0 else -axis - 1) - len(part))
    axis = axis if axis >= 0 else axis + len(part) + 1
    return (*part[:axis], use.node.attr["num"].i, *part[axis:])


def _split(shapes: Shapes, use: ValueUse) -> Shape:
    """SplitV: along its axis the sum of the sizes of its parts, as of flattened parameters."""
    sizes, axis = (
        constant(shapes.view.nodes[port.node]) for port in shapes.view.inputs(use.node.name)[1:3]
    )
    if sizes is None or axis is None or (sizes < 0).any():
        return None
    before, after = (int(axis), 0) if axis >= 0 else (0, -int(axis) - 1)
    return (*(None,) * before, int(sizes.sum()), *(None,) * after)


def _scattered(shapes: Shapes, use: ValueUse) -> Shape:
    """TensorArrayScatter: the elements of an array, which loops read."""
    parts = [shapes.element(port) for port in read_from_array(shapes.view, use.node.name)]
    return (None, *max(parts, key=len, default=()))


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
    ("If", 0): _scalar,
    ("LoopCond", 0): _scalar,
    ("MatMul", 0): _matrix,
    ("OneHot", 0): _vector,
    ("ResourceGather", 1): _vector,
    ("ReverseSequence", 1): _vector,
    ("SoftmaxCrossEntropyWithLogits", 1): _logits,
    ("SparseSoftmaxCrossEntropyWithLogits", 1): _all_but_last,
    ("Squeeze", 0): _squeezed,
    ("StatelessIf", 0): _scalar,
    ("Switch", 1): _scalar,
}
_ASKS.update(((op, 1), _right_matrix) for op in _MATMULS)
# Of tensors of unknown rank, by op type and input.
_HINTS: Dict[Tuple[str, int], Callable[[Shapes, ValueUse], Shape]] = {
    ("BiasAdd", 0): _biased,
    ("Gather", 0): _vector,
    ("GatherV2", 0): _reduced,
    ("Reshape", 0): _result,
    ("Shape", 0): _measured,
    ("SplitV", 0): _split,
    ("StridedSlice", 0): _sliced,
    ("Unpack", 0): _unpacked,
}
_HINTS.update(((op, slot), _two_axes) for op in _MATMULS for slot in (0, 1))
_HINTS.update(((op, 2), _scattered) for op in ARRAY_WRITES if "Scatter" in op)
_HINTS.update(((op, 0), _reduced) for op in _REDUCTIONS)
_HINTS.update(((op, 0), _rank_of_result) for op in _SAME_RANK)
