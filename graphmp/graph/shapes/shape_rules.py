"""Rules for the shape of an op's output, for ops that aren't in `shape_rules.txt`.

A rule yields questions and is sent the answers, so that the graph is walked without recursion.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Generator, Hashable, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes import dimensions
from graphmp.graph.shapes.dimensions import Dims
from graphmp.graph.structure.values import array
from graphmp.graph.structure.view import Port

_MOST_AXES = 16  # a longer constant isn't a shape


class Question(NamedTuple):
    """A question for the shape of a tensor, or the shape that it holds."""

    port: Port
    held: bool


Rule = Generator[Question, Dims, Dims]


def _shape(port: Port) -> Question:
    return Question(port, False)


def _held(port: Port) -> Question:
    return Question(port, True)


def _concat(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    axis, first = (inputs[0], inputs[1]) if node.op == "Concat" else (inputs[-1], inputs[0])
    return dimensions.replaced(
        (yield _shape(first)), (yield _held(axis)), lambda dim, place: (port, place)
    )


def _cross_entropy(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    """The loss of each example, and the gradients of the logits.

    Labels may be broadcast to the logits, or the logits to the labels.
    """
    logits, labels = (yield _shape(inputs[0])), (yield _shape(inputs[1]))
    if logits is None or labels is None or len(logits) != 2:
        return None
    both = logits if len(labels) == 1 else dimensions.broadcast(logits, labels)
    return both if port.output else both[:1]


def _expand(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return dimensions.with_another((yield _shape(inputs[0])), (yield _held(inputs[1])), 1)


def _gather(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    table, places = (yield _shape(inputs[0])), (yield _shape(inputs[1]))
    axis = (0,) if node.op == "Gather" else (yield _held(inputs[2]))
    return places + table[1:] if table and places is not None and axis == (0,) else None


def _matmul(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    first, second = (yield _shape(inputs[0])), (yield _shape(inputs[1]))
    names = ("transpose_a", "transpose_b") if node.op == "MatMul" else ("adj_x", "adj_y")
    return dimensions.product_of_matrices(
        first, second, (_option(node, names[0]), _option(node, names[1]))
    )


def _merge(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    """One of several tensors of the same shape."""
    first = yield _shape(inputs[0])
    for other in inputs[1:]:
        if (yield _shape(other)) != first:
            return None
    return first


def _one_hot(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    indices, depth = (yield _shape(inputs[0])), (yield _held(inputs[1]))
    return dimensions.with_another(indices, (_option(node, "axis"),), depth[0]) if depth else None


def _pack(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return dimensions.with_another((yield _shape(inputs[0])), (_option(node, "axis"),), len(inputs))


def _reduction(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return dimensions.without(
        (yield _shape(inputs[0])), (yield _held(inputs[1])), bool(_option(node, "keep_dims"))
    )


def _reshape(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    source, wanted = (yield _shape(inputs[0])), (yield _held(inputs[1]))
    return None if wanted is None else dimensions.reshaped(source, wanted, port)


def _slice(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return dimensions.sliced(
        (yield _shape(inputs[0])), (yield _held(inputs[1])), (yield _held(inputs[2]))
    )


def _split(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    """Parts of one size."""
    source, axis = (yield _shape(inputs[1])), (yield _held(inputs[0]))
    return dimensions.replaced(
        source,
        axis,
        lambda dim, place: dimensions.part(dim, _option(node, "num_split"), (node.name, place)),
    )


def _split_by_sizes(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    source, axis = (yield _shape(inputs[0])), (yield _held(inputs[2]))
    return dimensions.replaced(source, axis, lambda dim, place: (port, place))


def _squeeze(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    """Without given axes all dimensions of 1 are removed: all others must be known."""
    axes = tuple(node.attr["squeeze_dims"].list.i) if "squeeze_dims" in node.attr else ()
    return dimensions.without((yield _shape(inputs[0])), axes) if axes else None


def _strided_slice(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    """Whole dimensions, and those after the last one specified, are unchanged."""
    source, step = (yield _shape(inputs[0])), (yield _held(inputs[3]))
    if (
        source is None
        or step is None
        or len(step) > len(source)
        or _option(node, "ellipsis_mask")
        or _option(node, "new_axis_mask")
    ):
        return None
    gone, begin, end = (
        _option(node, key) for key in ("shrink_axis_mask", "begin_mask", "end_mask")
    )
    whole = [bool(begin & end & 1 << axis) and by == 1 for axis, by in enumerate(step)]
    told = [
        source[axis] if whole[axis] else (port, axis)
        for axis in range(len(step))
        if not gone & 1 << axis
    ]
    return (*told, *source[len(step) :])


def _tile(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return dimensions.multiplied((yield _shape(inputs[0])), (yield _held(inputs[1])))


def _transpose(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return dimensions.permuted((yield _shape(inputs[0])), (yield _held(inputs[1])))


def _unpack(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return dimensions.without((yield _shape(inputs[0])), (_option(node, "axis"),))


SHAPES: Dict[str, Callable[[Port, tf.NodeDef, Tuple[Port, ...]], Rule]] = {
    "BatchMatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "Concat": _concat,
    "ConcatV2": _concat,
    "ExpandDims": _expand,
    "Gather": _gather,
    "GatherV2": _gather,
    "MatMul": _matmul,
    "Merge": _merge,
    "OneHot": _one_hot,
    "Pack": _pack,
    "Reshape": _reshape,
    "Slice": _slice,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _cross_entropy,
    "Split": _split,
    "SplitV": _split_by_sizes,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unpack": _unpack,
    **dict.fromkeys(("All", "Any", "Max", "Mean", "Min", "Prod", "Sum"), _reduction),
}


def constant(node: tf.NodeDef) -> Dims:
    """The values of a constant, if it can be a shape."""
    tensor = node.attr["value"].tensor
    if (
        tensor.dtype not in (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
        or len(tensor.tensor_shape.dim) > 1
    ):
        return None
    if tensor.tensor_shape.dim and tensor.tensor_shape.dim[0].size > _MOST_AXES:
        return None
    value = array(tensor)
    return None if value is None else tuple(int(size) for size in value.reshape(-1))


def _shape_of(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    return (yield _shape(inputs[port.output]))


def _numbers(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    """Vectors are joined along their only axis."""
    joined: Tuple[Hashable, ...] = ()
    for part in inputs if node.op == "Pack" else inputs[:-1]:
        held = yield _held(part)
        if held is None:
            return None
        joined += held
    return joined


def _part(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    """A slice of a shape, with step 1."""
    parts = []
    for part in inputs:
        parts.append((yield _held(part)))
    return _sliced(node, *parts)


def _range(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    ends: List[int] = []
    for end in inputs:
        held = yield _held(end)
        ends += [number for number in held or () if isinstance(number, int)]
    return (
        tuple(range(*ends))
        if len(ends) == 3 and ends[2] and len(range(*ends)) <= _MOST_AXES
        else None
    )


def _rank(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    shape = yield _shape(inputs[0])
    return None if shape is None else (len(shape),)


def _arithmetic(port: Port, node: tf.NodeDef, inputs: Tuple[Port, ...]) -> Rule:
    first, second = (yield _held(inputs[0])), (yield _held(inputs[1]))
    return (
        (dimensions.ARITHMETIC[node.op](first[0], second[0]),)
        if first and second and len(first) == len(second) == 1
        else None
    )


HELD: Dict[str, Callable[[Port, tf.NodeDef, Tuple[Port, ...]], Rule]] = {
    "ConcatV2": _numbers,
    "Pack": _numbers,
    "Range": _range,
    "Rank": _rank,
    "Shape": _shape_of,
    "ShapeN": _shape_of,
    "StridedSlice": _part,
    **dict.fromkeys(dimensions.ARITHMETIC, _arithmetic),
}


def _sliced(node: tf.NodeDef, source: Dims, begin: Dims, end: Dims, step: Dims) -> Dims:
    if source is None or not begin or not end or step != (1,):
        return None
    first, last = begin[0], end[0]
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    if _option(node, "shrink_axis_mask"):
        return (source[first],) if -len(source) <= first < len(source) else None
    return source[
        None if _option(node, "begin_mask") else first : None if _option(node, "end_mask") else last
    ]


def _option(node: Any, key: str) -> int:
    """A flag or number of a node; looking up a missing key in a protobuf map would add it."""
    return int(node.attr[key].b or node.attr[key].i) if key in node.attr else 0
