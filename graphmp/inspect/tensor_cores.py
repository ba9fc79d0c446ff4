"""Advice on shapes: Tensor Cores need dimensions that are multiples of 8; others are padded.

Some kernels run without Tensor Cores instead.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

from graphmp.graph.shapes.shapes import recorded_elements
from graphmp.graph.structure.view import GraphView, Port

MULTIPLE = 8  # of 16-bit numbers, float16 and bfloat16
_MATMULS = {
    "MatMul": "transpose_%s",
    "BatchMatMul": "adj_%s",
    "BatchMatMulV2": "adj_%s",
    "BatchMatMulV3": "adj_%s",
}
_CONVOLUTIONS = frozenset(("Conv2D", "Conv3D"))
_TRANSPOSED = frozenset(("Conv2DBackpropInput", "Conv3DBackpropInput", "Conv3DBackpropInputV2"))

_Sizes = List[Tuple[str, int]]


class Dimension(NamedTuple):
    """A dimension of a matmul (M, N, K) or a convolution (channels), and the next multiple of 8."""

    name: str
    size: int
    next: int


class Misaligned(NamedTuple):
    """The dimensions of a node that are no multiples of 8, and its number of multiplications.

    Unknown dimensions count as 32.
    """

    dimensions: List[Dimension]
    work: int


def misfit(view: GraphView, name: str) -> Optional[Misaligned]:
    """Static dimensions of a matmul or convolution that don't fit.

    None if all do or none is known.
    """
    sizes, work = _sizes(view, name)
    dimensions = [
        Dimension(key, size, size - size % -MULTIPLE)
        for key, size in sizes
        if size > 0 and size % MULTIPLE
    ]
    return Misaligned(dimensions, work) if dimensions else None


def _sizes(view: GraphView, name: str) -> Tuple[_Sizes, int]:
    """The relevant dimensions, by name, and the work."""
    op = view.nodes[name].op
    if op in _MATMULS:
        return _matmul(view, name, _MATMULS[op])
    if op in _CONVOLUTIONS:
        return _convolution(view, name, Port(name, 0), ("input channels", "output channels"))
    if op in _TRANSPOSED:  # as for a layer: its filter has the output's channels first
        return _convolution(view, name, view.inputs(name)[2], ("output channels", "input channels"))
    return [], 0


def _matmul(view: GraphView, name: str, flag: str) -> Tuple[_Sizes, int]:
    a, b = (_shape(view, port) for port in view.inputs(name)[:2])
    if len(a) < 2 or len(b) < 2:
        return [], 0
    x, y = ("a", "b") if flag.startswith("transpose") else ("x", "y")
    m, k = _turned(view, name, flag % x, a)
    _, n = _turned(view, name, flag % y, b)
    return [("M", m), ("N", n), ("K", k)], _elements(view, Port(name, 0)) * abs(k)


def _turned(view: GraphView, name: str, flag: str, shape: List[int]) -> List[int]:
    """The last two dimensions, swapped if the flag is set."""
    attributes = view.nodes[name].attr
    return shape[-2:][::-1] if flag in attributes and attributes[flag].b else shape[-2:]


def _convolution(
    view: GraphView, name: str, data: Port, names: Tuple[str, str]
) -> Tuple[_Sizes, int]:
    """`data` has as many channels as the filter's last dimension."""
    filters = view.inputs(name)[1]
    shape = _shape(view, filters)
    if len(shape) < 3:
        return [], 0
    return list(zip(names, shape[-2:])), _elements(view, filters) * _elements(view, data) // max(
        shape[-1], 1
    )


def _elements(view: GraphView, port: Port) -> int:
    return recorded_elements(view.nodes[port.node], port.output)


def _shape(view: GraphView, port: Port) -> List[int]:
    """The static shape of a tensor, -1 for unknown dimensions; empty for an unknown rank."""
    node = view.nodes[port.node]
    if node.op == "Const" and "value" in node.attr:
        return [dim.size for dim in node.attr["value"].tensor.tensor_shape.dim]
    shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else []
    return [dim.size for dim in shapes[port.output].dim] if port.output < len(shapes) else []
