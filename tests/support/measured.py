"""Measurements inside small graphs."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow.compat.v1 as tf
from hypothesis import settings
from hypothesis import strategies as st

from graphmp.audit.measure.instrument import MAXIMA, SUMS, Instrument, MeasuredTensor
from graphmp.audit.measure.reduction import MOST_COUNTED
from graphmp.audit.measure.rows import ACTIVATION, TensorRow
from graphmp.audit.measure.statistics import COLUMNS, stats
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.formats import BFLOAT16, FLOAT16

often = settings(max_examples=80)


class Measuring:
    """A session of a graph with measurements of some of its tensors."""

    def __init__(
        self, graph, tensors, format_=FLOAT16, scale=None, elements=lambda tensor: 1, compared=False
    ):
        graph_def, self.rows = graph.as_graph_def(), len(tensors)
        name = scale.name if scale is not None else ""
        measured = [
            MeasuredTensor(tensor.name, FLOAT32, name, elements(tensor), compared)
            for tensor in tensors
        ]
        self.instrument = Instrument(graph_def, format_, measured)
        self._format = format_
        with tf.Graph().as_default() as self.graph:
            tf.import_graph_def(graph_def, name="")
            handles = [self.graph.get_tensor_by_name(name + ":0") for name in (SUMS, MAXIMA)]
            zeros = tf.zeros([self.rows, COLUMNS], tf.float64), tf.zeros([self.rows])
            self._clear = [
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)
                for handle, value in zip(handles, zeros)
            ]
            self._read = [
                tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype)
                for handle, value in zip(handles, zeros)
            ]
            self._initialisers = [
                op
                for op in self.graph.get_operations()
                if op.type in ("Assign", "AssignVariableOp") and op.name in _initialised(graph)
            ]
        self._session = tf.Session(graph=self.graph)
        self._session.run(self._initialisers)

    def tables(self, feeds=None, fetches=()):
        """Sums and maxima after one run."""
        self._session.run(self._clear)
        target = self.graph.get_operation_by_name(self.instrument.target)
        self._session.run(
            [*fetches, target], {name + ":0": value for name, value in (feeds or {}).items()}
        )
        return self._session.run(self._read)

    def stats(self, feeds=None, fetches=()):
        """Stats of all tensors after one run."""
        return [
            stats(row, largest, self._format) for row, largest in zip(*self.tables(feeds, fetches))
        ]


def _initialised(graph):
    return {
        variable.initializer.name
        for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    }


@functools.lru_cache(None)
def measuring(format_):
    """Measurements of a tensor of any shape, times a scale, and of its bfloat16 rounding."""
    with tf.Graph().as_default() as graph:
        x, scale = (
            tf.placeholder(tf.float32, None, "x"),
            tf.placeholder_with_default(1.0, [], "scale"),
        )
        tf.cast(tf.cast(x, tf.bfloat16), tf.float32, name="bfloat16")
        return Measuring(graph, [x], format_, scale)


def measured(values, format_=FLOAT16, scale=1.0):
    return measuring(format_).stats({"x": values, "scale": scale})[0]


def near(value):
    """A float32 and its neighbours, of both signs."""
    value = np.float32(value)
    both = [np.nextafter(value, np.float32(0)), value, np.nextafter(value, np.float32(np.inf))]
    return [sign * v for v in both for sign in (1, -1)]


EDGES = np.array(
    [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        65519.99,
        1e-40,
        2.0**-149,
        *near(65504),
        *near(65520),
        *near(65536),
    ]
    + [v for power in (-126, -133, -134, -24, -25, -26, -14, -15, 0, 127) for v in near(2.0**power)]
    + [
        *near(BFLOAT16.largest),
        *np.array([0x7F7F7FFF, 0x7F7F8000, 0x7F7F8001, 0x7F7FFFFF], np.uint32).view(np.float32),
    ],
    np.float32,
)


@st.composite
def tensors(draw):
    """Arbitrary bits, or bits of one range of exponents, including edge values."""
    size = draw(st.one_of(st.integers(0, 70), st.integers(0, MOST_COUNTED)))
    random = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    low = draw(st.sampled_from([0, 90, 100, 130, 250]))
    high = draw(st.sampled_from([105, 120, 145, 256]))
    fields = random.randint(low, max(high, low + 1), size).astype(np.uint32)
    bits = (
        (random.randint(0, 2, size).astype(np.uint32) << 31)
        | (fields << 23)
        | random.randint(0, 2**23, size).astype(np.uint32)
    )
    values = bits.view(np.float32)
    if size:
        values[random.randint(0, size, draw(st.integers(0, 20)))] = EDGES[
            random.randint(0, len(EDGES))
        ]
    return values


def row(role=ACTIVATION, loss=-1):
    return TensorRow(
        "x", role, "MatMul", "x", tf.float16.as_datatype_enum, loss, power=int(loss >= 0)
    )
