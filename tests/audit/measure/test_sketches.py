"""Sketches of tensors, and the relative errors that come from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.audit.measure.reduction import BUCKETS, MOST_COUNTED
from tests.support.measured import measured, often


def error_by_sketch(x, y):
    a, b = measured(x).sketch, measured(y).sketch
    return np.linalg.norm(a - b) / np.linalg.norm(a)


def error(x, y):
    return np.linalg.norm(x.astype(np.float64) - y) / np.linalg.norm(x.astype(np.float64))


@given(st.integers(1, BUCKETS), st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1e-3, 0.1, 2.0]))
@often
def test_relative_errors_of_small_tensors_are_exact(size, seed, noise):
    random = np.random.RandomState(seed)
    x = (random.normal(size=size) + random.normal()).astype(np.float32)
    y = (x + noise * random.normal(size=size)).astype(np.float32)
    assert error_by_sketch(x, y) == pytest.approx(error(x, y), rel=1e-9, abs=1e-12)


KINDS = {
    "normal": lambda random, size: random.normal(size=size),
    "same": lambda random, size: np.ones(size),
    "one sign": lambda random, size: 0.5 + 0.1 * random.normal(size=size),
    "relu": lambda random, size: np.maximum(0, random.normal(size=size)),
    "ramp": lambda random, size: np.arange(size) / size,
    "wave": lambda random, size: np.sin(np.arange(size) / 50),
    "equal columns": lambda random, size: np.resize(random.normal(size=BUCKETS), size),
}


@pytest.mark.parametrize("size", [65, 128, 192, 1000, 4096, 65536, 100000])
@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_larger_tensors_are_estimated(kind, size):
    random = np.random.RandomState(0)
    x = KINDS[kind](random, size).astype(np.float32)
    found = measured(x)
    counted = x[:: -(-size // MOST_COUNTED)]
    assert found.counted == counted.size
    assert 0.5 < np.linalg.norm(found.sketch) / np.linalg.norm(counted) < 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", KINDS)
def test_relative_errors_of_larger_tensors_are_estimated(kind, noise):
    random = np.random.RandomState(1)
    x = KINDS[kind](random, 5000).astype(np.float32)
    y = (x + 0.01 * KINDS[noise](random, 5000)).astype(np.float32)
    assert error(x, y) / 2 < error_by_sketch(x, y) < error(x, y) * 2


@given(st.integers(0, 2**32 - 1))
@settings(often, max_examples=20)
def test_estimates_hold_for_any_values(seed):
    random = np.random.RandomState(seed)
    x = (random.normal(size=3000) * np.exp2(random.uniform(-4, 4, 3000))).astype(np.float32)
    y = (x * (1 + 0.001 * random.normal(size=3000))).astype(np.float32)
    assert error(x, y) / 3 < error_by_sketch(x, y) < error(x, y) * 3


def test_sketches_leave_out_what_is_not_finite():
    x = np.float32([1, np.inf, -2, np.nan])
    np.testing.assert_array_equal(np.abs(measured(x).sketch[:5]), [1, 0, 2, 0, 0])
