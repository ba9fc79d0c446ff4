"""Measurements inside a graph against NumPy's, in while loops and branches too.

What is added up of them; loss-scale advice.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from graphmp.audit.measure.reduction import BUCKETS, MOST_COUNTED
from graphmp.policy.formats import BFLOAT16, FLOAT16, FORMATS
from tests.support.audits import exponent_fields
from tests.support.measured import EDGES, measured, measuring, often, tensors

FORMAT = pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)


def bfloat16(values):
    """TensorFlow rounds to bfloat16."""
    one = measuring(BFLOAT16)
    with tf.Session(graph=one.graph) as session:
        return session.run("bfloat16:0", {"x:0": values})


def rounded(values, format_):
    return values.astype(np.float16) if format_ is FLOAT16 else bfloat16(values)


def without_subnormals(values):
    """Kernels take float32's own subnormal numbers for zeros."""
    return np.where(np.abs(values) < np.float32(2.0**-126), np.float32(0), values)


@np.errstate(over="ignore", invalid="ignore")
def check(values, format_):
    """All counts of a tensor that is counted whole."""
    found, values = measured(values, format_), without_subnormals(values)
    half, finite = rounded(values, format_).ravel(), np.isfinite(values).ravel()
    flat = values.ravel()
    assert found.elements == found.counted == flat.size
    assert found.not_finite == (~finite).sum()
    assert found.overflow == (np.isinf(half) & finite).sum()
    assert found.flushed == ((half == 0) & (flat != 0)).sum()
    assert found.subnormal == ((half != 0) & (np.abs(flat) < 2.0**format_.normal)).sum()
    np.testing.assert_array_equal(found.exponents, exponent_fields(flat))
    assert found.largest == (
        np.abs(flat).max() if flat.size and finite.all() else np.inf if flat.size else 0
    )
    if flat.size <= BUCKETS:
        np.testing.assert_array_equal(
            np.sort(np.abs(found.sketch[: flat.size])), np.sort(np.abs(np.where(finite, flat, 0)))
        )


@FORMAT
@given(values=tensors())
@often
def test_counts_are_those_of_numpy(format_, values):
    check(values, format_)


@FORMAT
@given(value=st.integers(0, 2**32 - 1))
@often
def test_counts_of_a_scalar(format_, value):
    check(np.uint32(value).view(np.float32), format_)


@FORMAT
@pytest.mark.parametrize("value", EDGES, ids=lambda v: np.float32(v).tobytes()[::-1].hex())
def test_each_edge(format_, value):
    check(np.array([value], np.float32), format_)


@FORMAT
@pytest.mark.parametrize(
    "shape",
    [(0,), (3, 0, 2), (), (1,), (2, 3, 4), (BUCKETS,), (BUCKETS + 1,), (MOST_COUNTED,)],
    ids=str,
)
def test_shapes(format_, shape):
    check(np.full(shape, 1e-6, np.float32), format_)


def test_all_edges_at_once():
    check(EDGES, FLOAT16)
    check(EDGES, BFLOAT16)


def test_a_scale_is_multiplied_in():
    found = measured(np.float32([1e-9, 1.0, 1000.0]), scale=2.0**10)
    assert (found.flushed, found.subnormal, found.overflow, found.largest) == (0, 1, 1, 1024000)


@pytest.mark.parametrize("size", [MOST_COUNTED + 1, 100000, 2 * MOST_COUNTED, 300001])
def test_of_large_tensors_every_kth_is_counted(size):
    random = np.random.RandomState(0)
    values = random.normal(size=size).astype(np.float32) * np.float32(2e4)
    values[random.randint(0, size)] = -(2**27) - 16
    found = measured(values)
    assert (found.elements, found.largest) == (size, 2**27 + 16)
    assert (
        MOST_COUNTED / 2 <= found.counted <= MOST_COUNTED and found.counted == found.exponents.sum()
    )
    share = (np.abs(values) >= 65520).mean()
    assert found.overflow / found.counted == pytest.approx(share, rel=0.2)
    np.testing.assert_allclose(
        found.exponents / found.counted,
        exponent_fields(values) / size,
        atol=5 / np.sqrt(found.counted),
    )


def test_one_value_that_is_not_finite_shows_in_the_largest():
    values = np.zeros(200000, np.float32)
    values[1] = np.nan  # between those that are counted
    found = measured(values)
    assert (found.not_finite, found.largest) == (0, np.inf)
