"""Floating-point operations of the matmuls and convolutions of an HLO module, by operand dtype.

A multiplication and its addition count as two. Positions of a window in the padding, or between the
elements of a dilated input, don't count. Nor do instructions with unused results, such as the
gradient of a fed tensor, as XLA removes them. A loop's body counts once, as HLO doesn't have its
number of iterations.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Counter, Dict, NamedTuple, Set

import numpy as np
from tensorflow.compiler.xla import xla_data_pb2 as xla

DTYPES = {
    xla.PRED: "bool",
    xla.S8: "int8",
    xla.S16: "int16",
    xla.S32: "int32",
    xla.S64: "int64",
    xla.U8: "uint8",
    xla.U16: "uint16",
    xla.U32: "uint32",
    xla.U64: "uint64",
    xla.BF16: "bfloat16",
    xla.F16: "float16",
    xla.F32: "float32",
    xla.F64: "float64",
    xla.C64: "complex64",
    xla.C128: "complex128",
}


class Work(NamedTuple):
    """The number of operations, and of dots and convolutions, each by dtype."""

    flops: Dict[str, int]
    products: Dict[str, int]


def work(module: Any) -> Work:
    """The work of one run of an HloModuleProto."""
    computations = {computation.id: computation for computation in module.computations}
    flops: Counter[str] = collections.Counter()
    products: Counter[str] = collections.Counter()

    def add(computation: Any) -> None:
        instructions = {instruction.id: instruction for instruction in computation.instructions}
        for instruction in map(instructions.get, _read(instructions, computation.root_id)):
            for called in instruction.called_computation_ids:
                add(computations[called])
            if instruction.opcode in COUNTED:
                operands = [instructions[number].shape for number in instruction.operand_ids]
                dtype = DTYPES[operands[0].element_type]
                flops[dtype] += 2 * COUNTED[instruction.opcode](instruction, *operands)
                products[dtype] += 1

    add(computations[module.entry_computation_id])
    return Work(dict(flops), dict(products))


def _read(instructions: Dict[int, Any], root: int) -> Set[int]:
    """The instructions that the root depends on, by number, including the root."""
    seen, waiting = {root}, [root]
    while waiting:
        fresh = set(instructions[waiting.pop()].operand_ids) - seen
        seen |= fresh
        waiting.extend(fresh)
    return seen


def _dot(instruction: Any, left: Any, right: Any) -> int:
    contracted = instruction.dot_dimension_numbers.lhs_contracting_dimensions
    return _product(instruction.shape.dimensions) * _product(
        left.dimensions[number] for number in contracted
    )


def _convolution(instruction: Any, data: Any, kernel: Any) -> int:
    """The multiplications of a convolution.

    They are examples x output channels x input channels of a group x elements touched by the
    positions of the window.
    """
    numbers = instruction.convolution_dimension_numbers
    examples = data.dimensions[numbers.input_batch_dimension] // max(
        instruction.batch_group_count, 1
    )
    channels = (
        kernel.dimensions[numbers.kernel_input_feature_dimension]
        * kernel.dimensions[numbers.kernel_output_feature_dimension]
    )
    sizes = zip(
        instruction.window.dimensions,
        numbers.input_spatial_dimensions,
        numbers.output_spatial_dimensions,
    )
    touched = (
        _touched(window, data.dimensions[i], instruction.shape.dimensions[o])
        for window, i, o in sizes
    )
    return examples * channels * _product(touched)


def _touched(window: Any, size: int, positions: int) -> int:
    """Pairs of an output position and a window place on an input element, in one dimension."""
    starts = np.arange(positions)[:, None] * window.stride - window.padding_low
    places = starts + np.arange(window.size)[None, :] * window.window_dilation
    base = window.base_dilation
    return int(np.sum((places >= 0) & (places % base == 0) & (places // base < size)))


def _product(numbers: Any) -> int:
    return int(np.prod(list(numbers), dtype=object))


COUNTED: Dict[str, Callable[..., int]] = {"dot": _dot, "convolution": _convolution}
