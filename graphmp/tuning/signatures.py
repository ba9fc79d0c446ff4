"""Signatures: which operations take the same time, and how much an operation computes."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.tuning.costs import OperationSignature, TensorType

# Attributes on which the time of a kernel depends, besides dtypes and shapes.
_ATTRIBUTES = (
    "adj_x",
    "adj_y",
    "align_corners",
    "data_format",
    "dilations",
    "direction",
    "input_mode",
    "is_training",
    "ksize",
    "padding",
    "rnn_mode",
    "strides",
    "transpose_a",
    "transpose_b",
)
_DEFAULTS = ("", "False", "NHWC", "0")
FUSED = "fused"  # an attribute of ours: the ops whose kernel is part of this one's
UNKNOWN = 32  # for a dimension that nothing tells


def signature_of(
    node: tf.NodeDef,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    fused: Iterable[str] = (),
) -> OperationSignature:
    """The signature of a node.

    Args:
        node: the node of the float32 graph.
        inputs: the types of its inputs, without control inputs.
        outputs: the types of its outputs.
        fused: the ops whose kernel is part of this one's.
    """
    values = [(name, _text(node.attr[name])) for name in _ATTRIBUTES if name in node.attr]
    attributes = [(name, text) for name, text in values if text not in _DEFAULTS]
    ops = ",".join(sorted(fused))
    return OperationSignature(
        node.op,
        tuple(sorted([*attributes, *([(FUSED, ops)] if ops else [])])),
        tuple(inputs),
        tuple(outputs),
    )


def _text(value: Any) -> str:
    """An attribute's value; lists of ones are the default of dilations."""
    kind = value.WhichOneof("value")
    if kind == "s":
        return str(value.s.decode("utf-8", "replace"))
    if kind == "list":
        numbers = list(value.list.i)
        return "" if all(number == 1 for number in numbers) else ",".join(map(str, numbers))
    return str(getattr(value, kind)) if kind else ""


def fits(pattern: OperationSignature, measured: OperationSignature) -> bool:
    """Whether a signature, which may have unknown dimensions, can be the measured one."""
    return (
        pattern.op == measured.op
        and pattern.attributes == measured.attributes
        and len(pattern.inputs) == len(measured.inputs)
        and all(map(_may_be, pattern.inputs, measured.inputs))
        and all(map(_may_be, pattern.outputs, measured.outputs))
    )


def _may_be(pattern: TensorType, measured: TensorType) -> bool:
    if pattern.dtype != measured.dtype:
        return False
    if pattern.shape is None or measured.shape is None:
        return True
    return len(pattern.shape) == len(measured.shape) and all(
        a is None or b is None or a == b for a, b in zip(pattern.shape, measured.shape)
    )


def elements(tensor: TensorType, batch_size: Optional[int] = None) -> int:
    """Elements of a tensor; an unknown first dimension is the batch size, others are 32."""
    if tensor.shape is None:
        return UNKNOWN**2
    first = UNKNOWN if batch_size is None else batch_size
    dims = [
        (first if place == 0 else UNKNOWN) if dim is None else dim
        for place, dim in enumerate(tensor.shape)
    ]
    return int(np.prod(dims, dtype=np.float64)) if dims else 1


def work(signature: OperationSignature, batch_size: Optional[int] = None) -> float:
    """How much an operation computes: multiplications of a product, elements of other ops."""
    sizes = [float(elements(tensor, batch_size)) for tensor in signature.inputs]
    results = [float(elements(tensor, batch_size)) for tensor in signature.outputs]
    if "Conv" in signature.op and "BackpropFilter" in signature.op and len(sizes) >= 3:
        return _convolution(sizes[2], signature.outputs[:1], results[:1])
    if "Conv" in signature.op and "BackpropInput" in signature.op and len(sizes) >= 3:
        return _convolution(sizes[2], signature.inputs[1:2], sizes[1:2])
    if "Conv" in signature.op and len(sizes) >= 2 and results:
        return _convolution(results[0], signature.inputs[1:2], sizes[1:2])
    if "MatMul" in signature.op and len(sizes) >= 2 and results:
        return max(1.0, float(np.sqrt(sizes[0] * sizes[1] * results[0])))
    return max(1.0, sum(sizes) + sum(results))


def _convolution(output: float, filters: Sequence[TensorType], sizes: Sequence[float]) -> float:
    """Multiplications: each output element takes the filter's elements of its channel."""
    if not filters or not sizes:
        return max(1.0, output)
    shape = filters[0].shape
    channels = (shape[-1] or UNKNOWN) if shape else 1
    return max(1.0, output * sizes[0] / channels)
