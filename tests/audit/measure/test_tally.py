"""Measurements added up over steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.audit.measure.reduction import MOST_COUNTED
from graphmp.audit.measure.rows import ACTIVATION, WEIGHT_GRADIENT
from graphmp.audit.measure.statistics import COLUMNS
from graphmp.audit.measure.tally import Tally
from graphmp.policy.formats import FLOAT16
from tests.support.audits import exponent_fields
from tests.support.measured import measuring, often, row


def tables(original, converted, scale=1.0):
    """What a measured step of one row gives.

    The original's values are measured times the scale, the converted graph's have it.
    """
    pairs = [
        measuring(FLOAT16).tables({"x": np.float32(original), "scale": scale}),
        measuring(FLOAT16).tables({"x": np.float32(converted)}),
    ]
    sums, maxima = zip(*pairs)
    return np.concatenate(sums), np.concatenate(maxima)


def tallied(steps, role=WEIGHT_GRADIENT, loss=0):
    """The Range of one row over steps (original, converted, scale, finite)."""
    tally = Tally([row(role, loss)], FLOAT16)
    for original, converted, scale, finite in steps:
        tally.add(*tables(original, converted, scale), [scale], [finite])
    (found,) = tally.ranges()
    return found


def test_scales_that_change_are_taken_out_again():
    x = np.float32([3e-5, -1e-9, 0, 7])
    steps = [(x, x * scale, scale, True) for scale in (1.0, 2.0**10, 2.0**-3)]
    found = tallied(steps)
    np.testing.assert_array_equal(found.exponents, 3 * exponent_fields(x))
    assert found.largest == 7 and found.error == 0
    assert found.flushed == 1 + 0 + 1  # 1e-9 is more than 2^-25 times 2^10
    assert found.norm == pytest.approx(
        np.sqrt(3) * np.linalg.norm(x)
    ) and found.converted_norm == pytest.approx(found.norm)


@given(st.integers(0, 2**32 - 1), st.integers(-20, 20))
@settings(often, max_examples=20)
def test_a_shifted_histogram_is_that_of_the_values(seed, power):
    x = np.exp2(np.random.RandomState(seed).uniform(-60, 60, 500)).astype(np.float32)
    np.testing.assert_array_equal(tallied([(x, x, 2.0**power, True)]).exponents, exponent_fields(x))


def test_skipped_steps_do_not_count_for_the_error():
    x = np.float32([1, 2, 3])
    found = tallied(
        [
            (x, x * 1024, 1024.0, True),
            (x, np.float32([np.inf, np.nan, 0]), 2.0**30, False),
            (x, x * 1.5, 1.0, True),
        ]
    )
    assert found.error == pytest.approx(np.sqrt(0.25 / 2))
    assert (found.elements, found.not_finite, found.original_not_finite) == (9, 2, 0)
    assert found.overflow == 3  # of the original's values at the second scale


def test_activations_have_no_scale_and_count_in_skipped_steps():
    x = np.float32([1, 2, 3])
    found = tallied([(x, x * 2, 1.0, False)], ACTIVATION, -1)
    assert (found.error, found.largest) == (1, 3)


def test_an_error_needs_something_to_compare():
    assert np.isnan(tallied([(np.zeros(3), np.zeros(3), 1.0, True)]).error)
    assert np.isnan(tallied([(np.ones(3), np.ones(3), 1.0, False)]).error)
    tally = Tally([row()._replace(converted="", loss=0)], FLOAT16)
    tally.add(*tables([1.0], [2.0]), [1.0], [True])
    assert np.isnan(tally.ranges()[0].error)


@pytest.mark.unit
def test_rows_that_were_never_seen_are_no_result():
    tally = Tally([row()], FLOAT16)
    assert tally.ranges() == []
    tally.add(np.zeros((2, COLUMNS)), np.zeros(2, np.float32), [], [])
    assert tally.ranges() == []


@pytest.mark.parametrize(
    "value, overflows", [(65504, 0), (65510, 0), (65519.99, 0), (65520, 1), (1e30, 1)]
)
def test_what_lies_between_the_counted_shows_in_the_largest(value, overflows):
    """And what only rounds down to the largest number doesn't overflow."""
    for size in (4, 4 * MOST_COUNTED):
        x = np.zeros(size, np.float32)
        x[1] = value
        assert tallied([(x, x, 1.0, True)]).overflow == overflows


def test_what_is_not_finite_between_the_counted():
    x = np.zeros(4 * MOST_COUNTED, np.float32)
    broken = x.copy()
    broken[1] = np.nan
    found = tallied([(broken, broken, 1.0, True)])
    assert (found.not_finite, found.original_not_finite, found.overflow) == (1, 1, 0)
    found = tallied([(x, broken, 1.0, True)])
    assert (found.not_finite, found.original_not_finite) == (1, 0)
