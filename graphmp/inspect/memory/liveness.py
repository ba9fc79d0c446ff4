"""Peak memory: an order of the nodes, the lifetime of each buffer, and the highest sum."""

from __future__ import annotations

import itertools
from typing import Hashable, Iterable, Mapping, NamedTuple, Tuple, TypeVar

# They write their result into an input of the same size and dtype that nothing needs any more
# (forward_input_or_allocate_output in their kernels, 2.21), whichever input that is.
IN_PLACE = frozenset((
    "Abs", "Add", "AddN", "AddV2", "BiasAdd", "BiasAddV1", "Ceil", "ClipByValue", "Elu", "EluGrad",
    "Erf", "Erfc", "Exp", "Expm1", "Floor", "Inv", "LeakyRelu", "LeakyReluGrad", "Log", "Log1p",
    "LogSoftmax", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul", "Neg",
    "Pow", "RealDiv", "Reciprocal", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Round", "Rsqrt",
    "RsqrtGrad", "Select", "SelectV2", "Selu", "SeluGrad", "Sigmoid", "SigmoidGrad", "Sign",
    "Softmax", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Sqrt", "SqrtGrad", "Square",
    "SquaredDifference", "Sub", "Tanh", "TanhGrad",
))  # fmt: skip

_Buffer = TypeVar("_Buffer", bound=Hashable)
Interval = Tuple[int, int]  # indices of the first and the last node that need a buffer


class Highest(NamedTuple):
    """The first place with the highest sum of live buffers, and that sum."""

    place: int
    bytes: int


def highest(
    sizes: Mapping[_Buffer, int], lives: Mapping[_Buffer, Interval], places: int
) -> Highest:
    """The highest sum over the places of an order; (0, 0) without places."""
    change = [0] * (places + 1)
    for buffer, (first, last) in lives.items():
        change[first] += sizes[buffer]
        change[last + 1] -= sizes[buffer]
    sums = list(itertools.accumulate(change[:-1]))
    found = max(sums, default=0)
    return Highest(sums.index(found) if sums else 0, found)


def alive(lives: Mapping[_Buffer, Interval], place: int) -> Iterable[_Buffer]:
    """The buffers that live at a place."""
    return [buffer for buffer, (first, last) in lives.items() if first <= place <= last]
