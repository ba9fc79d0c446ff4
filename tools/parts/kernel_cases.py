"""Inputs for the ops that graphmp may make half: shapes of 0, 1, 2 and odd numbers; long sums.

A case is the arguments of a function of `tf.raw_ops`. Arrays of float32 are those that become half.
Ops without a row in `SPECIAL` get arrays of one shape, and integers of the kinds of `_INTEGERS`;
the caller keeps what float32 accepts.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterator, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.tf_hooks.op_definitions import registered

Case = Dict[str, Any]
SHAPES: Sequence[Tuple[int, ...]] = (
    (0,), (1,), (2,), (3,), (7,), (17,), (), (0, 3), (1, 1), (1, 3), (3, 1), (5, 7),
    (0, 2, 2, 3), (1, 1, 1, 1), (1, 1, 1, 3), (2, 1, 1, 1), (1, 3, 3, 1), (2, 2, 2, 3),
)  # fmt: skip
IMAGES = [s for s in SHAPES if len(s) == 4] + [(1, 2, 2, 1), (3, 4, 4, 5), (1, 4, 4, 1)]
_INTEGERS: Sequence[Any] = (0, [0], 1, [1], [[0, 0]], [[0, 0], [1, 0]], [[1, 1]], [2, 1])
_FLOATS = (tf.float32.as_datatype_enum, tf.float16.as_datatype_enum)
_FEW, _MANY = 3, 4096  # numbers that are added up
_MOST = 40  # cases of an op without a row


def array(*shape: int) -> Any:
    """Numbers between 0.5 and 1.5, the same for the same shape, that half precision holds."""
    size = int(np.prod(shape))
    steps = (np.arange(size) * 37 % 64).reshape(shape)
    return (0.5 + steps / 64.0).astype(np.float32)


def cases(op: str) -> Iterator[Case]:
    """The cases of an op."""
    if op in SPECIAL:
        yield from SPECIAL[op]()
    elif registered(op) is not None:
        yield from itertools.islice(_generic(registered(op)), _MOST)


def long_sums(op: str) -> Iterator[Case]:
    """Cases of an op that adds up: few numbers and many, of one channel and of several."""
    for rows in (_FEW, _MANY):
        if op in ("Mean", "Sum"):
            yield from ({"input": array(*x), "axis": _ints(0)} for x in ((rows,), (rows, 3)))
        elif op == "BiasAddGrad":
            yield from ({"out_backprop": array(*x)} for x in ((rows, 3), (3, rows)))
        elif op == "MatMul":
            yield {"a": array(3, rows), "b": array(rows, 2)}


def _generic(definition: Any) -> Iterator[Case]:
    attributes = {each.name: each for each in definition.attr}
    given = {
        name: 2
        for name, each in attributes.items()
        if each.type == "int" and not each.HasField("default_value")
    }
    for shape, numbers in itertools.product(SHAPES, _INTEGERS):
        found: Case = {}
        for arg in definition.input_arg:
            if _is_float(arg, attributes):
                value: Any = array(*shape)
            elif arg.type == tf.bool.as_datatype_enum:
                value = np.ones(shape, bool)
            else:
                value = np.array(numbers, np.int32)
            found[arg.name] = [value] * 2 if arg.number_attr else value
        implied = {arg.number_attr for arg in definition.input_arg}
        found.update({name: number for name, number in given.items() if name not in implied})
        integers = any(_is_int(value) for value in found.values())
        if integers or numbers == _INTEGERS[0]:
            yield found


def _is_int(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.int32


def _is_float(arg: Any, attributes: Dict[str, Any]) -> bool:
    if not arg.type_attr:
        return arg.type in _FLOATS
    allowed = attributes[arg.type_attr].allowed_values.list.type
    return bool(not allowed or tf.float32.as_datatype_enum in allowed) and not (
        arg.type_attr.startswith("Ti") or arg.type_attr in ("Taxis", "Tshape", "Index")
    )


def _matmul() -> Iterator[Case]:
    for m, k, n in itertools.product((0, 1, 2, 3), (1, 2, 5), (1, 3)):
        yield {"a": array(m, k), "b": array(k, n)}
        yield {"a": array(k, m), "b": array(n, k), "transpose_a": True, "transpose_b": True}


def _batch_matmul() -> Iterator[Case]:
    for b, m, k in itertools.product((0, 1, 2), (1, 2, 3), (1, 3)):
        yield {"x": array(b, m, k), "y": array(b, k, m)}
        yield {"x": array(b, k, m), "y": array(b, m, k), "adj_x": True, "adj_y": True}


def _convolved(gradient: str, depthwise: bool = False) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for shape, kernel, out in itertools.product(IMAGES, (1, 2, 3), (1, 3)):
            channels = shape[3]
            weights = array(kernel, kernel, channels, out)
            made = shape[:3] + ((channels * out) if depthwise else out,)
            base: Case = {"strides": [1, 1, 1, 1], "padding": "SAME"}
            sizes = np.array(shape, np.int32)
            if not gradient:
                yield {"input": array(*shape), "filter": weights, **base}
            elif gradient == "input":
                base.update(input_sizes=sizes, filter=weights)
                yield {"out_backprop": array(*made), **base}
            else:
                base.update(input=array(*shape), filter_sizes=np.array(weights.shape, np.int32))
                yield {"out_backprop": array(*made), **base}

    return make


def _convolved_3d(gradient: str) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for side, channels, kernel in itertools.product((1, 2, 3), (1, 3), (1, 2)):
            shape = (1, side, side, side, channels)
            weights = array(kernel, kernel, kernel, channels, 2)
            made = array(*shape[:4], 2)
            base: Case = {"strides": [1] * 5, "padding": "SAME"}
            if not gradient:
                yield {"input": array(*shape), "filter": weights, **base}
            elif gradient == "input":
                sizes = np.array(shape, np.int32)
                yield {"input_sizes": sizes, "filter": weights, "out_backprop": made, **base}
            else:
                sizes = np.array(weights.shape, np.int32)
                yield {"input": array(*shape), "filter_sizes": sizes, "out_backprop": made, **base}

    return make


def _normalised(gradient: bool, version: int) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for shape in IMAGES:
            channels = np.ones([shape[3]], np.float32)
            if gradient:
                space = {"reserve_space_1": channels, "reserve_space_2": channels}
                if version == 3:
                    space["reserve_space_3"] = np.zeros([0], np.float32)
                yield {"y_backprop": array(*shape), "x": array(*shape), "scale": channels, **space}
            else:
                none = np.zeros([0], np.float32)
                yield {
                    "x": array(*shape), "scale": channels, "offset": channels,
                    "mean": none, "variance": none,
                }  # fmt: skip
                yield {
                    "x": array(*shape), "scale": channels, "offset": channels,
                    "mean": channels, "variance": channels, "is_training": False,
                }  # fmt: skip

    return make


def _pooled(*names: str) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for shape, side in itertools.product(IMAGES, (1, 2)):
            window = [1, side, side, 1]
            found: Case = {name: array(*shape) for name in names}
            if "orig_input_shape" in names:
                found["orig_input_shape"] = np.array(shape, np.int32)
            yield {**found, "ksize": window, "strides": [1] * 4, "padding": "SAME"}

    return make


def _with(first: str, **more: Callable[[Tuple[int, ...]], Any]) -> Callable[[], Iterator[Case]]:
    """Every shape, with arguments made from it."""

    def make() -> Iterator[Case]:
        for shape in SHAPES:
            yield {first: array(*shape), **{name: of(shape) for name, of in more.items()}}

    return make


def _ints(*values: int) -> Any:
    return np.array(values, np.int32)


def _shape(shape: Tuple[int, ...]) -> Any:
    return np.array(shape, np.int32)


def _padded(shape: Tuple[int, ...]) -> Any:
    return np.array([[1, 0]] * len(shape), np.int32).reshape(len(shape), 2)


def _columns(shape: Tuple[int, ...]) -> Any:
    """The same array, for a second argument."""
    return array(*shape)


def _bias() -> Iterator[Case]:
    for shape in SHAPES:
        if len(shape) > 1:
            yield {"value": array(*shape), "bias": array(shape[-1])}


def _concatenated() -> Iterator[Case]:
    for shape in SHAPES:
        if shape:
            yield {"values": [array(*shape), array(*shape)], "axis": np.int32(0)}
            yield {"values": [array(*shape), array(*shape)], "axis": np.int32(len(shape) - 1)}


def _sliced() -> Iterator[Case]:
    for shape in SHAPES:
        zeros, ones = np.zeros(len(shape), np.int32), np.ones(len(shape), np.int32)
        yield {
            "input": array(*shape),
            "begin": zeros,
            "end": np.array(shape, np.int32),
            "strides": ones,
        }


def _pooled_3d(*names: str) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for side, channels, window in itertools.product((1, 2, 3), (1, 3), (1, 2)):
            shape = (1, side, side, side, channels)
            found: Case = {name: array(*shape) for name in names}
            if "orig_input_shape" in names:
                found["orig_input_shape"] = _ints(*shape)
            yield {
                **found,
                "ksize": [1] + [window] * 3 + [1],
                "strides": [1] * 5,
                "padding": "SAME",
            }

    return make


def _pooled_by_tensors(*names: str) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for shape in IMAGES:
            found: Case = {name: array(*shape) for name in names}
            yield {
                **found,
                "ksize": _ints(1, 2, 2, 1),
                "strides": _ints(1, 1, 1, 1),
                "padding": "SAME",
            }

    return make


def _blocks(name: str) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for batch, side, channels in itertools.product((0, 1, 3), (2, 4), (4, 8)):
            yield {name: array(batch, side, side, channels), "block_size": 2}

    return make


def _split(sizes: bool) -> Callable[[], Iterator[Case]]:
    def make() -> Iterator[Case]:
        for rows, columns in itertools.product((0, 2, 4), (1, 3)):
            found: Case = {"value": array(rows, columns), "axis": np.int32(0)}
            parts = _ints(rows // 2, rows - rows // 2)
            more: Case = {"size_splits": parts} if sizes else {}
            yield {**found, **more, "num_split": 2}

    return make


def _einsum() -> Iterator[Case]:
    for m, k, n in itertools.product((0, 1, 2, 3), (1, 2, 5), (1, 3)):
        yield {"inputs": [array(m, k), array(k, n)], "equation": "mk,kn->mn"}


def _lstm_cell() -> Iterator[Case]:
    for batch, size in itertools.product((1, 2, 3), (1, 2, 3)):
        state, peephole = array(batch, size), array(size)
        yield {
            "x": array(batch, 3), "cs_prev": state, "h_prev": state,
            "w": array(3 + size, 4 * size), "wci": peephole, "wcf": peephole, "wco": peephole,
            "b": array(4 * size),
        }  # fmt: skip


def _lstm() -> Iterator[Case]:
    for steps, case in itertools.product((1, 2, 3), _lstm_cell()):
        batch = case["cs_prev"].shape[0]
        yield {**case, "x": array(steps, batch, 3), "seq_len_max": np.int64(steps)}


SPECIAL: Dict[str, Callable[[], Iterator[Case]]] = {
    "MatMul": _matmul,
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "BatchMatMulV3": _batch_matmul,
    "Conv2D": _convolved(""),
    "Conv2DBackpropInput": _convolved("input"),
    "Conv2DBackpropFilter": _convolved("filter"),
    "DepthwiseConv2dNative": _convolved("", True),
    "DepthwiseConv2dNativeBackpropInput": _convolved("input", True),
    "DepthwiseConv2dNativeBackpropFilter": _convolved("filter", True),
    "Conv3D": _convolved_3d(""),
    "Conv3DBackpropInputV2": _convolved_3d("input"),
    "Conv3DBackpropFilterV2": _convolved_3d("filter"),
    "FusedBatchNormV2": _normalised(False, 2),
    "FusedBatchNormV3": _normalised(False, 3),
    "FusedBatchNormGradV2": _normalised(True, 2),
    "FusedBatchNormGradV3": _normalised(True, 3),
    "MaxPool": _pooled("input"),
    "AvgPool": _pooled("value"),
    "MaxPoolGrad": _pooled("orig_input", "orig_output", "grad"),
    "MaxPoolGradGrad": _pooled("orig_input", "orig_output", "grad"),
    "AvgPoolGrad": _pooled("grad", "orig_input_shape"),
    "BiasAdd": _bias,
    "BiasAddV1": _bias,
    "ConcatV2": _concatenated,
    "AvgPool3D": _pooled_3d("input"),
    "MaxPool3D": _pooled_3d("input"),
    "MaxPool3DGrad": _pooled_3d("orig_input", "orig_output", "grad"),
    "AvgPool3DGrad": _pooled_3d("grad", "orig_input_shape"),
    "MaxPoolV2": _pooled_by_tensors("input"),
    "MaxPoolGradV2": _pooled_by_tensors("orig_input", "orig_output", "grad"),
    "DepthToSpace": _blocks("input"),
    "SpaceToDepth": _blocks("input"),
    "Split": _split(False),
    "SplitV": _split(True),
    "Einsum": _einsum,
    "LSTMBlockCell": _lstm_cell,
    "BlockLSTM": _lstm,
    "ExpandDims": _with("input", axis=lambda _: np.int32(0)),
    "EnsureShape": _with("input", shape=list),
    "IdentityN": lambda: ({"input": [array(*shape), array(*shape)]} for shape in SHAPES),
    "Where": _with("condition"),
    "ReverseSequence": _with(
        "input",
        seq_lengths=lambda shape: np.array((shape + (1, 1))[1]) * np.ones(shape[:1], np.int32),
        seq_dim=lambda _: 1,
    ),
    "StridedSlice": _sliced,
    "Reshape": _with("tensor", shape=lambda shape: _ints(*shape[::-1])),
    "Transpose": _with("x", perm=lambda shape: np.arange(len(shape), dtype=np.int32)[::-1]),
    "Slice": _with("input", begin=lambda shape: 0 * _shape(shape), size=_shape),
    "Pad": _with("input", paddings=_padded),
    "PadV2": _with("input", paddings=_padded, constant_values=lambda _: array()),
    "MirrorPad": _with("input", paddings=_padded, mode=lambda _: "SYMMETRIC"),
    "MirrorPadGrad": _with("input", paddings=_padded, mode=lambda _: "SYMMETRIC"),
    "Tile": _with("input", multiples=lambda shape: 2 + 0 * _shape(shape)),
    "BroadcastTo": _with("input", shape=lambda shape: _ints(2, *shape)),
    "Fill": _with("value", dims=lambda shape: _ints(3, *shape)),
    "ReverseV2": _with("tensor", axis=lambda shape: np.arange(len(shape), dtype=np.int32)),
    "GatherV2": _with("params", indices=lambda _: _ints(0, 0, 0), axis=lambda _: np.int32(0)),
    "Gather": _with("params", indices=lambda _: _ints(0, 0, 0)),
    "GatherNd": _with("params", indices=lambda _: np.zeros([3, 1], np.int32)),
    "Max": _with("input", axis=lambda shape: np.arange(len(shape), dtype=np.int32)),
    "Min": _with("input", axis=lambda shape: np.arange(len(shape), dtype=np.int32)),
    "Prod": _with("input", axis=lambda shape: np.arange(len(shape), dtype=np.int32)),
    "Sum": _with("input", axis=lambda shape: np.arange(len(shape), dtype=np.int32)),
    "Mean": _with("input", axis=lambda shape: np.arange(len(shape), dtype=np.int32)),
    "Select": _with("x", condition=lambda shape: np.ones(shape, bool), y=_columns),
    "SelectV2": _with("t", condition=lambda shape: np.ones(shape, bool), e=_columns),
    "TopKV2": _with("input", k=lambda _: np.int32(1)),
    "OneHot": _with(
        "on_value",
        indices=lambda _: _ints(0, 2, 1),
        depth=lambda _: np.int32(3),
        off_value=_columns,
    ),
    "ClipByValue": _with("t", clip_value_min=_columns, clip_value_max=_columns),
    "CheckNumerics": _with("tensor", message=lambda _: "found"),
    "LeakyRelu": _with("features"),
    "ResizeNearestNeighbor": _with("images", size=lambda _: _ints(3, 3)),
    "ResizeNearestNeighborGrad": _with("grads", size=lambda _: _ints(2, 2)),
    "DynamicPartition": _with(
        "data", partitions=lambda shape: np.zeros(shape[:1], np.int32), num_partitions=lambda _: 2
    ),
    "SpaceToBatchND": _with(
        "input", block_shape=lambda _: _ints(1), paddings=lambda _: np.zeros([1, 2], np.int32)
    ),
    "BatchToSpaceND": _with(
        "input", block_shape=lambda _: _ints(1), crops=lambda _: np.zeros([1, 2], np.int32)
    ),
}
