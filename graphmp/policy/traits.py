"""Traits of ops besides their list: tables of data, each with its reason in the file.

`traits.txt` has the ops of each trait, `kernels.txt` those without a half-precision kernel.
"""

from __future__ import annotations

from typing import FrozenSet

from graphmp.policy import tables
from graphmp.policy.dtypes import BOOL, INT8, UINT8
from graphmp.policy.homogeneity import rule

_TRAITS = tables.sets("traits.txt")
MOVES_NOTHING = _TRAITS["moves_nothing"]
DISCONTINUOUS = _TRAITS["discontinuous"]
KEEPS_VALUES = _TRAITS["keeps_values"]
BOUNDED = _TRAITS["bounded"]
BOUNDED_OFF_ZERO = _TRAITS["bounded_off_zero"]
BOUNDED_IN_GRADIENT = _TRAITS["bounded_in_gradient"]
FORGETS_VALUES = _TRAITS["forgets_values"]
LAST_ACTIVATIONS = _TRAITS["last_activations"]
MAGNIFIES = _TRAITS["magnifies"]
FACTORS = _TRAITS["factors"]
NEEDS_RANGE = _TRAITS["needs_range"]
SHARES_MEMORY = _TRAITS["shares_memory"]
SLOW_IN_HALF = _TRAITS["slow_in_half"]
DIVIDES_BY_RECIPROCAL = _TRAITS["divides_by_reciprocal"]
DECIDES_NEAR_ONE = _TRAITS["decides_near_one"]
READS_POSITIONS = _TRAITS["reads_positions"]
NEXT_INTEGER = _TRAITS["next_integer"]
REMAINDER = _TRAITS["remainder"]
FORGETS_SIZES = _TRAITS["forgets_sizes"]
WEIGHTS_OF_MEAN = _TRAITS["weights_of_mean"]
SINGULAR = _TRAITS["singular"]
SINGULAR_AT_ONE = _TRAITS["singular_at_one"]
DIVIDES = _TRAITS["divides"]
REDUCES = _TRAITS["reduces"]
SQUARES = _TRAITS["squares"]
BIAS_ADDS = _TRAITS["bias_adds"]
LOOK_UPS = _TRAITS["look_ups"]
NONLINEAR_DENIED = _TRAITS["nonlinear_denied"]
PASSES_ON = _TRAITS["passes_on"]
HANDLE_OPS = _TRAITS["handle_ops"]
WIDER_STATISTICS = _TRAITS["wider_statistics"]

# Up to this many gradients of one variable are added up in float32; gradients added one by one in a
# loop always are. More of them, in an unrolled network, are added in half precision: each would
# need a cast, which costs more bytes than the rest of the step saves, to avoid a rounding of 2^-11
# an addition. AddN's kernel adds eight in one call.
MOST_SUMMED_IN_FLOAT32 = 8
# Elements for which a kernel that is slow in half precision takes longer than a cast and float32:
# for fewer the launch of a cast takes as long; for more the cast does, as the time that the kernel
# loses hardly grows (80 to 180 us a call on an H100, for 1 << 17 to 1 << 28 elements).
SLOW_ELEMENTS = range(1 << 14, 1 << 25)
# Integers that float16 and bfloat16 represent exactly: a cast from them loses nothing.
EXACT_INTEGERS = frozenset((BOOL, INT8, UINT8))


def homogeneity(op: str) -> str:
    """The rule of `homogeneity.txt` for an op; empty for an unknown op."""
    return rule(op).name


def without_kernel(compute_dtype: str) -> FrozenSet[str]:
    """Ops that lack a kernel of a compute dtype on the CPU or the GPU."""
    return _WITHOUT_KERNEL.get(compute_dtype, frozenset())


_WITHOUT_KERNEL = {
    dtype: frozenset(op for listed, op, _ in tables.rows("kernels.txt") if listed == dtype)
    for dtype in ("float16", "bfloat16")
}
