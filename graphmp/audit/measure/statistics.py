"""Statistics of tensors, reduced in place by a function that adds a row of numbers to a table.

A row has the counts of the 256 exponents of float32, of overflow and of the largest value that
vanishes; the number of elements; and a sketch: the sums of the elements in each of 64 columns, with
random signs. The sketch of a difference is the difference of the sketches, so that the relative
error of a tensor needs neither of the two at once. Up to 64 elements it is exact, else an estimate
(Charikar, Chen, Farach-Colton: Finding frequent items in data streams, 2002). Counts are exact up
to 65,536 elements; of a larger tensor every k-th element is counted. The largest magnitude is
always exact.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.audit.measure.reduction import BUCKETS, compared, counted, side_by_side
from graphmp.policy.dtypes import FLOAT32, INT32, RESOURCE
from graphmp.policy.formats import EXPONENT_BIAS, EXPONENTS, Format
from graphmp.policy.op_sets import ARGUMENT
from graphmp.tf_hooks import bodies
from graphmp.tf_hooks.op_defs import OpDefs

_OVER, _TIE, _ELEMENTS, _SKETCH = range(EXPONENTS, EXPONENTS + 4)
COLUMNS = _SKETCH + BUCKETS
SHARED = {
    "scale": FLOAT32,
    "signs": FLOAT32,
    "sums": RESOURCE,
    "maxima": RESOURCE,
    "rows": INT32,
}  # arguments of a call besides the tensors


class Stats(NamedTuple):
    """The counts of one or many tensors, with the tables' leading dimensions.

    Attributes:
        exponents: int64 of shape [..., 256]: the number of elements with each exponent field of
            float32; the first is zeros, the last not finite.
        overflow: finite elements that round to infinity.
        flushed: nonzero elements that round to zero.
        subnormal: elements that keep fewer digits than a normal number.
        not_finite: infinities and NaN.
        elements: all elements, counted or not.
        counted: the elements that the other numbers count.
        largest: the largest magnitude; infinite if any element isn't finite.
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
    """Read rows and entries of the tables of sums and of maxima; or one row, and its entry."""
    counts = sums[..., :_SKETCH].astype(np.int64)
    exponents = counts[..., :EXPONENTS]
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


@functools.lru_cache(None)
def measuring_function(format_: Format, compare: bool, count: int) -> Any:
    """The FunctionDef that measures `count` tensors.

    They are `x0`, `x1` and so on, float32, each times `scale`, with `rows` of the tables.

    Args:
        format_: the half-precision format.
        compare: whether to compute only what a comparison needs: the sketch, and finiteness.
        count: the number of tensors.
    """
    with tf.Graph().as_default() as graph:
        xs = [tf.placeholder(tf.float32, None, name) for name, _ in _arguments(count)[:count]]
        scale, sign, sums, maxima, rows = (
            tf.placeholder(dtype, None, name) for name, dtype in SHARED.items()
        )
        scale.set_shape([])
        vectors = side_by_side([tf.reshape(x, [-1]) for x in xs])
        found = compared(vectors, sign) if compare else counted(vectors, scale, sign, format_)
        numbers = [
            found.exponents,
            tf.stack([found.over, found.ties], 1),
            vectors.sizes[:, tf.newaxis],
            found.sketch,
        ]
        row = tf.concat([tf.cast(part, tf.float64) for part in numbers], 1)
        tf.raw_ops.ResourceScatterAdd(resource=sums, indices=rows, updates=row, name="add")
        tf.raw_ops.ResourceScatterMax(
            resource=maxima, indices=rows, updates=found.largest, name="max"
        )
    return _function(graph.as_graph_def(), _name(compare, count))


def _function(graph_def: tf.GraphDef, name: str) -> Any:
    library = tf.GraphDef()
    function = library.library.function.add()
    function.signature.name = name
    function.signature.is_stateful = True
    for node in graph_def.node:
        if node.op == "Placeholder":
            node.op = ARGUMENT
            function.signature.input_arg.add(name=node.name, type=node.attr["dtype"].type)
    bodies.write_back(_with_shared_constants(graph_def), function, OpDefs(tf.MetaGraphDef()))
    function.attr["_noinline"].b = True
    return function


def _with_shared_constants(graph_def: tf.GraphDef) -> tf.GraphDef:
    """Merge equal constants, which Python made for each use: running one costs like a kernel."""
    first: Dict[bytes, str] = {}
    same = {
        n.name: first.setdefault(n.attr["value"].SerializeToString(), n.name)
        for n in graph_def.node
        if n.op == "Const"
    }
    result = tf.GraphDef(versions=graph_def.versions)
    for node in graph_def.node:
        if same.get(node.name, node.name) == node.name:
            node.input[:] = [same.get(text, text) for text in node.input]
            result.node.add().CopyFrom(node)
    return result


def _name(compare: bool, count: int) -> str:
    return "graphmp_%s_%d" % ("compare" if compare else "measure", count)


def _arguments(count: int) -> List[Tuple[str, int]]:
    return [("x%d" % number, FLOAT32) for number in range(count)] + list(SHARED.items())


def call(name: str, compare: bool, xs: Sequence[str], shared: Sequence[str]) -> tf.NodeDef:
    """A call of the function for this number of tensors.

    `shared` are the input strings of SHARED.
    """
    node = tf.NodeDef(name=name, op="StatefulPartitionedCall")
    node.input.extend([*xs, *shared])
    node.attr["f"].func.name = _name(compare, len(xs))
    node.attr["Tin"].list.type.extend(dtype for _, dtype in _arguments(len(xs)))
    node.attr["Tout"].list.SetInParent()
    node.attr["config_proto"].s = _unoptimised()
    node.attr[
        "_disable_call_shape_inference"
    ].b = True  # saves 0.65 ms a call at import; there is no output (2.21)
    return node


def _unoptimised() -> bytes:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return bytes(config.SerializeToString())
