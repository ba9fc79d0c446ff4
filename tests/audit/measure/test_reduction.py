"""Several tensors measured by one call."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.audit.measure.reduction import BUCKETS, MOST_COUNTED
from tests.support.measured import EDGES, Measuring, measured

SHAPES = [(), (3,), (0,), (BUCKETS, 3), (7, 11, 13), (200,), (MOST_COUNTED,), (MOST_COUNTED + 300,)]


def one_of_each(count, seed):
    """Arrays of the shapes in turn, of any magnitude, every third with edge values among them."""
    random = np.random.RandomState(seed)
    arrays = [
        random.normal(size=SHAPES[n % len(SHAPES)]) * np.exp2(random.uniform(-30, 20))
        for n in range(count)
    ]
    arrays = [np.asarray(array, np.float32) for array in arrays]
    for array in arrays[::3]:
        array.flat[: len(EDGES) : 2] = EDGES[: len(array.ravel()[: len(EDGES)]) : 2]
    return arrays


@functools.lru_cache(None)
def many(count, compared):
    """Placeholders x0, x1 and so on, together as far as the instrument takes them.

    Scaled where they aren't compared.
    """
    with tf.Graph().as_default() as graph:
        xs = [tf.placeholder(tf.float32, None, "x%d" % number) for number in range(count)]
        return Measuring(graph, xs, scale=None if compared else tf.constant(4.0), compared=compared)


@pytest.mark.parametrize("count", [1, 4, 5, 16, 37])
def test_counts_of_several_tensors_are_those_of_each(count):
    arrays = one_of_each(count, count)
    found = many(count, False).stats({"x%d" % number: array for number, array in enumerate(arrays)})
    for one, array in zip(found, arrays):
        alone = measured(array, scale=4.0)
        for name, value in alone._asdict().items():
            np.testing.assert_allclose(
                getattr(one, name),
                value,
                rtol=1e-4 if name == "sketch" else 0,
                atol=0,
                err_msg=name,
            )


@pytest.mark.parametrize("count", [1, 4, 5, 16, 37])
def test_what_a_comparison_needs_is_the_same(count):
    arrays = one_of_each(count, count)
    arrays[-1].flat[0] = np.nan
    found = many(count, True).stats({"x%d" % number: array for number, array in enumerate(arrays)})
    assert found[-1].not_finite
    for one, array in zip(found, arrays):
        alone = measured(array)
        assert (one.elements, one.not_finite, np.isinf(one.largest)) == (
            alone.elements,
            alone.not_finite,
            np.isinf(alone.largest),
        )
        np.testing.assert_allclose(one.sketch, alone.sketch, rtol=1e-4)


def test_a_comparison_sees_one_value_that_is_not_counted():
    hidden, whole = np.zeros(200000, np.float32), np.zeros(200000, np.float32)
    hidden[1], whole[1] = -np.inf, 3e38
    found = many(4, True).stats(
        {"x0": hidden, "x1": whole, "x2": np.float32([3e38] * 500), "x3": np.float32(np.nan)}
    )
    assert [one.largest == np.inf for one in found] == [True, False, False, True]
    assert [one.not_finite for one in found] == [0, 0, 0, 1]


def test_calls_are_few(graph):
    xs = [
        tf.placeholder(tf.float32, [size], "x%d" % size)
        for size in [*range(1, 38), 2**20, 2**20 + 1]
    ]
    found = Measuring(graph, xs, elements=lambda x: int(x.shape[0]))
    calls = found.graph.get_operation_by_name(found.instrument.target).control_inputs
    assert sorted(
        len([each for each in call.inputs if each.op.name.startswith("x")]) for call in calls
    ) == [1, 1, 1, 4, 16, 16]
