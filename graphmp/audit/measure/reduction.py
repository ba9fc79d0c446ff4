"""A measurement as nodes.

Vectors are the rows of a matrix, so that one kernel serves all, and the results are numbers for
each row.

Most rows neither overflow nor hold values that aren't finite, and few have the exponent of the
largest value that vanishes: numbers for these cases are computed for the other rows only.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import select
from graphmp.policy.formats import EXPONENTS, MANTISSA_BITS, Format

MOST_COUNTED = 65536
BUCKETS = 64
_INFINITE = 0x7F800000


class Rows(NamedTuple):
    """Vectors as rows.

    Attributes:
        values: float32 of shape [vectors, width]: every k-th element of each, then zeros; the width
            is a multiple of BUCKETS.
        lengths: int32 [vectors]: the number of these elements.
        sizes: int32 [vectors]: the number of all elements.
        hidden: float32 [vectors]: the largest magnitude of a vector that is not complete, infinite
            for NaN; zero for the others.
    """

    values: Any
    lengths: Any
    sizes: Any
    hidden: Any


class Numbers(NamedTuple):
    """The statistics of each row, the first dimension of all.

    Attributes:
        exponents: counts by exponent field of float32.
        over: the number of elements that round to infinity, including those not finite.
        ties: the number of elements equal to the largest value that vanishes.
        largest: float32: the largest magnitude, infinite if an element isn't finite.
        sketch: float32 [vectors, BUCKETS]: sums of the finite elements by column of BUCKETS, with
            random signs.
    """

    exponents: Any
    over: Any
    ties: Any
    largest: Any
    sketch: Any


def signs() -> Any:
    """For each index 1 or -1, float32, by a multiply-and-shift hash.

    Source: Wellons, Prospecting for hash functions, 2018.
    """
    places = np.arange(MOST_COUNTED, dtype=np.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        places = (places ^ (places >> np.uint32(shift))) * np.uint32(factor)
    return np.where(places >> np.uint32(31), np.float32(-1), np.float32(1))


def side_by_side(xs: List[Any]) -> Rows:
    """Arrange vectors of any length as rows; those of at most MOST_COUNTED elements completely."""
    sizes = tf.stack([tf.size(x) for x in xs])
    strides = tf.maximum(1, tf.floordiv(sizes + MOST_COUNTED - 1, MOST_COUNTED))
    lengths = tf.floordiv(sizes, strides)
    width = BUCKETS * tf.floordiv(tf.maximum(tf.reduce_max(lengths), 1) + BUCKETS - 1, BUCKETS)
    tables = zip(
        xs, tf.split(lengths * strides, len(xs)), tf.unstack(tf.stack([lengths, strides], 1))
    )
    parts = [tf.reshape(tf.slice(x, [0], taken), shape)[:, 0] for x, taken, shape in tables]
    ends = tf.split(tf.stack([tf.zeros_like(lengths), width - lengths], 1), len(xs))
    values = tf.stack(
        [tf.pad(part, end) for part, end in zip(parts, ends)]
    )  # 0 zeros and a stride of 1 copy nothing
    values.set_shape([len(xs), None])
    large = tf.split(select(strides > 1, sizes, tf.zeros_like(sizes)), len(xs))
    hidden = tf.stack([_largest(tf.slice(x, [0], size)) for x, size in zip(xs, large)])
    return Rows(values, lengths, sizes, hidden)


def counted(rows: Rows, scale: Any, sign: Any, format_: Format) -> Numbers:
    """All numbers, for the values times a scale."""
    values = rows.values * scale
    bits = _bits(values)
    largest = tf.maximum(tf.reduce_max(bits, 1), _bits(rows.hidden * scale))
    exponents = _exponents(bits, rows.lengths)
    over = _of_some(
        largest >= format_.overflows, bits, lambda some: _count(some >= format_.overflows)
    )
    ties = _of_some(
        _may_tie(exponents, format_), bits, lambda some: _count(tf.equal(some, format_.vanishes))
    )
    sketch = _without_infinite(_columns(values, sign), values, sign, largest >= _INFINITE)
    return Numbers(exponents, over, ties, _magnitudes(largest), sketch)


def compared(rows: Rows, sign: Any) -> Numbers:
    """The sketch, whether elements are finite, and zeros for the rest.

    The exponents count elements that aren't finite; with any, the largest magnitude is infinite.
    """
    sketch = _columns(rows.values, sign)
    broken = tf.logical_or(
        tf.is_inf(rows.hidden), tf.logical_not(tf.is_finite(tf.reduce_sum(sketch, 1)))
    )
    not_finite = _of_some(broken, rows.values, lambda some: _count(_bits(some) >= _INFINITE))
    exponents = tf.pad(not_finite[:, tf.newaxis], [[0, 0], [EXPONENTS - 1, 0]])
    zeros = tf.zeros_like(not_finite)
    largest = tf.maximum(rows.hidden, select(not_finite > 0, zeros + np.inf, zeros))
    return Numbers(
        exponents, zeros, zeros, largest, _without_infinite(sketch, rows.values, sign, broken)
    )


def _largest(x: Any) -> Any:
    """The largest magnitude of a vector, infinite for NaN, 0 if empty; computed without a copy.

    Half the sum of squares is NaN only if an element is: squares have one sign. Max and Min have no
    defined result for NaN.
    """
    first = tf.constant([0])
    found = tf.maximum(tf.reduce_max(x, first), -tf.reduce_min(x, first))
    return select(
        tf.is_nan(tf.nn.l2_loss(x)), tf.constant(np.inf, tf.float32), tf.maximum(found, 0.0)
    )


def _bits(x: Any) -> Any:
    """Magnitudes as integers, in the same order."""
    return tf.bitcast(tf.abs(x), tf.int32)


def _magnitudes(bits: Any) -> Any:
    return tf.bitcast(tf.clip_by_value(bits, 0, _INFINITE), tf.float32)


def _exponents(bits: Any, lengths: Any) -> Any:
    """Histograms of the exponents of each row; padding is subtracted from the zeros."""
    none = tf.zeros([0], tf.int32)
    rows = tf.split(tf.bitwise.right_shift(bits, MANTISSA_BITS), int(bits.shape[0]))
    found = tf.stack([tf.raw_ops.Bincount(arr=row, size=EXPONENTS, weights=none) for row in rows])
    return found - tf.pad(
        (tf.shape(bits)[1] - lengths)[:, tf.newaxis], [[0, 0], [0, EXPONENTS - 1]]
    )


def _may_tie(exponents: Any, format_: Format) -> Any:
    """The rows that have the exponent of the largest value that vanishes.

    Kernels flush float32's own subnormal numbers to zero.
    """
    exponent = format_.vanishes >> MANTISSA_BITS
    return exponents[:, exponent] > 0 if exponent else tf.zeros_like(exponents[:, 0], tf.bool)


def _columns(values: Any, sign: Any) -> Any:
    """Sums of each row by column of BUCKETS."""
    width = tf.shape(values)[1]
    return tf.reduce_sum(
        tf.reshape(
            values * tf.slice(sign, [0], [width]), [-1, tf.floordiv(width, BUCKETS), BUCKETS]
        ),
        1,
    )


def _without_infinite(sketch: Any, values: Any, sign: Any, broken: Any) -> Any:
    """The sketch of only the finite elements, if some aren't."""
    finite = _of_some(
        broken,
        values,
        lambda some: _columns(select(tf.is_finite(some), some, tf.zeros_like(some)), sign),
        [BUCKETS],
    )
    return select(broken, finite, sketch)


def _of_some(
    wanted: Any, matrix: Any, function: Callable[[Any], Any], shape: Sequence[int] = ()
) -> Any:
    """A function of the wanted rows, which are few; zeros for the others."""
    rows = tf.raw_ops.Where(condition=wanted)
    return tf.scatter_nd(
        rows,
        function(tf.gather_nd(matrix, rows)),
        tf.constant([int(matrix.shape[0]), *shape], tf.int64),
    )


def _count(flags: Any) -> Any:
    return tf.reduce_sum(tf.cast(flags, tf.float32), 1)
