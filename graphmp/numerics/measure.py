"""Statistics of a tensor, reduced where it is computed: a function that adds a row of numbers to a table that the graph holds.

A row has the counts of the 256 exponents of float32, of what overflows and of the one value that just vanishes; the number of
elements; and a sketch: the sum of the elements in each of 64 columns, each taken with a sign of its own. The sketch of a
difference is the difference of the sketches, so that the relative error of a tensor needs neither of the two at once; of up to
64 elements it is exact, of more an estimate (Charikar, Chen, Farach-Colton: Finding frequent items in data streams, 2002).
Counts are exact up to 65,536 elements; of a larger tensor every k-th element is counted. The largest magnitude is always exact.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.dtypes import FLOAT32, INT32, RESOURCE
from graphmp.policy.formats import EXPONENT_BIAS, MANTISSA_BITS, Format
from graphmp.rewrite import bodies
from graphmp.rewrite.op_defs import OpDefs

FUNCTION = "graphmp_measure"
ARGUMENTS = (("x", FLOAT32), ("scale", FLOAT32), ("sums", RESOURCE), ("maxima", RESOURCE), ("row", INT32))
MOST_COUNTED = 65536
BUCKETS = 64
_EXPONENTS = 256
_OVER, _TIE, _ELEMENTS, _CALLS, _SKETCH = range(_EXPONENTS, _EXPONENTS + 5)
COLUMNS = _SKETCH + BUCKETS
_INFINITE = 0x7F800000


class Stats(NamedTuple):
    """What was counted of a tensor, or of many: all have the tables' leading dimensions.

    Attributes:
        exponents: int64 of shape [..., 256]: how many elements have each exponent field of float32; the first is zeros, the last not finite.
        overflow: elements that round to infinity, infinities and NaN left out.
        flushed: elements other than zero that round to zero.
        subnormal: elements that keep fewer digits than a normal number does.
        not_finite: infinities and NaN.
        elements: all elements, counted or not.
        counted: those that the other numbers count.
        largest: the largest magnitude; infinite where any element isn't finite.
        sketch: float64 of shape [..., 64].
    """

    exponents: Any
    overflow: Any
    flushed: Any
    subnormal: Any
    not_finite: Any
    elements: Any
    counted: Any
    largest: Any
    sketch: Any


def stats(sums: Any, maxima: Any, format_: Format) -> Stats:
    """Reads rows of the table of sums, and the entries of the table of maxima; or one row, and its entry."""
    counts = sums[..., :_SKETCH].astype(np.int64)
    exponents = counts[..., :_EXPONENTS]
    low, normal = (max(0, e + EXPONENT_BIAS) for e in (format_.bottom, format_.normal))
    flushed = exponents[..., 1 : max(1, low - 1)].sum(-1) + counts[..., _TIE]
    return Stats(
        exponents,
        counts[..., _OVER] - exponents[..., -1],
        flushed,
        exponents[..., 1:normal].sum(-1) - flushed,
        exponents[..., -1],
        counts[..., _ELEMENTS],
        exponents.sum(-1),
        np.asarray(maxima, np.float64)[()],
        sums[..., _SKETCH:],
    )


def measuring_function(format_: Format) -> Any:
    """The FunctionDef: `graphmp_measure(x, scale, sums, maxima, row)` of float32, float32 [], resource, resource, int32 []."""
    with tf.Graph().as_default() as graph:
        x, scale, sums, maxima, row = (tf.placeholder(dtype, None if name == "x" else [], name) for name, dtype in ARGUMENTS)
        flat = tf.reshape(x, [-1]) * scale
        bits = tf.bitwise.bitwise_and(tf.bitcast(flat, tf.int32), 0x7FFFFFFF)
        largest = tf.bitcast(tf.clip_by_value(tf.reduce_max(bits), 0, _INFINITE), tf.float32)
        elements = tf.size(flat)
        stride = tf.maximum(1, tf.floordiv(elements + MOST_COUNTED - 1, MOST_COUNTED))
        counted, values = bits[::stride], flat[::stride]
        exponents = tf.raw_ops.Bincount(arr=tf.bitwise.right_shift(counted, MANTISSA_BITS), size=_EXPONENTS, weights=tf.zeros([0], tf.int32))
        numbers = [_count(counted >= format_.overflows), _count(tf.equal(counted, format_.vanishes)), elements, tf.constant(1)]
        parts = [tf.cast(exponents, tf.float64), tf.cast(tf.stack(numbers), tf.float64), tf.cast(_sketch(values, counted), tf.float64)]
        tf.raw_ops.ResourceScatterAdd(resource=sums, indices=row, updates=tf.concat(parts, 0), name="add")
        tf.raw_ops.ResourceScatterMax(resource=maxima, indices=row, updates=largest, name="max")
    return _function(graph.as_graph_def())


def _count(flags: Any) -> Any:
    return tf.reduce_sum(tf.cast(flags, tf.int32))


def _sketch(values: Any, bits: Any) -> Any:
    """Sums of the finite values by column of 64, each value times a sign that a hash of its place gives."""
    finite = tf.raw_ops.Select(condition=bits < _INFINITE, x=values, y=tf.zeros_like(values))
    missing = tf.floormod(-tf.size(values), BUCKETS)
    signed = tf.bitwise.bitwise_xor(tf.bitcast(finite, tf.int32), _signs(tf.size(values)))
    return tf.reduce_sum(tf.reshape(tf.pad(tf.bitcast(signed, tf.float32), [[0, missing]]), [-1, BUCKETS]), 0)


def _signs(count: Any) -> Any:
    """For each place 0 or float32's sign bit, by a multiply-and-shift hash (Wellons: Prospecting for hash functions, 2018)."""
    places = tf.range(count)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        shifted = tf.bitwise.bitwise_and(tf.bitwise.right_shift(places, shift), (1 << (32 - shift)) - 1)
        places = tf.bitwise.bitwise_xor(places, shifted) * np.uint32(factor).astype(np.int32)
    return tf.bitwise.bitwise_and(places, np.int32(-(2**31)))


def _function(graph_def: tf.GraphDef) -> Any:
    library = tf.GraphDef()
    function = library.library.function.add()
    function.signature.name = FUNCTION
    function.signature.is_stateful = True
    for name, dtype in ARGUMENTS:
        function.signature.input_arg.add(name=name, type=dtype)
    for node in graph_def.node:
        if node.op == "Placeholder":
            node.op = bodies.ARGUMENT
    bodies.write_back(graph_def, function, OpDefs(tf.MetaGraphDef()))
    function.attr["_noinline"].b = True
    return function


def call(name: str, x: str, scale: str, row: str, tables: List[str]) -> tf.NodeDef:
    """A call of the function; each argument an input string, tables those of the sums and the maxima."""
    node = tf.NodeDef(name=name, op="StatefulPartitionedCall")
    node.input.extend([x, scale, *tables, row])
    node.attr["f"].func.name = FUNCTION
    node.attr["Tin"].list.type.extend(dtype for _, dtype in ARGUMENTS)
    node.attr["Tout"].list.SetInParent()
    return node
