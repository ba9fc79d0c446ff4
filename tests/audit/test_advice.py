"""Advice on the loss scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmp.audit.advice import advise
from graphmp.policy.formats import BFLOAT16, FLOAT16
from tests.support.audits import exponent_fields
from tests.support.measured import often

pytestmark = pytest.mark.unit


def histogram(values):
    return exponent_fields(np.float32(values))


def test_advice_leaves_two_powers_above_the_largest_gradient():
    found = advise([histogram([1e-9, 3e-9, 0, 0])], FLOAT16, 1.0)
    assert found.largest == -29  # 2^-29 <= 3e-9 < 2^-28
    assert found.scale == 2.0 ** (13 + 29) and 3e-9 * found.scale < 2.0**14
    assert (found.flushed, found.flushed_scaled, found.flushed_now) == (1, 0, 1)
    assert (found.powers, found.used, found.unused_above) == (40, 0, 44)


def test_advice_by_hand():
    """Gradients at 2^-27, 2^-26, 2^-25, 2^-24, 1 and zeros: three vanish, one of them only just."""
    found = advise(
        [histogram(np.exp2([-27, -26, -25, -24, 0])), histogram([0.0] * 10)], FLOAT16, 2.0
    )
    assert (found.largest, found.scale) == (0, 2.0**13)
    assert (found.used, found.unused_above) == (2, 15)
    assert found.flushed == pytest.approx(2 / 5)
    assert found.flushed_now == pytest.approx(1 / 5) and found.flushed_scaled == 0


def test_advice_of_gradients_that_are_too_large():
    found = advise([histogram([2.0**20, 2.0**-10])], FLOAT16, 1.0)
    assert (found.largest, found.scale, found.used, found.unused_above) == (20, 2.0**-7, 1, 0)
    assert found.overflowing == 0.5


@pytest.mark.parametrize(
    "histograms", [[], [np.zeros(256, np.int64)], [histogram([0.0, np.inf, np.nan])]]
)
def test_advice_without_gradients(histograms):
    found = advise(histograms, FLOAT16, 8.0)
    assert found == (1.0, None, 40, 0, 40, 0, 0, 0, None, 0) and not found.too_wide


@pytest.mark.parametrize(
    "lowest, share, too_wide",
    [(-40, 0.02, True), (-40, 0.005, False), (-39, 0.02, False), (-24, 0.5, False)],
)
def test_gradients_further_apart_than_the_format_holds(lowest, share, too_wide):
    """From 2^lowest to 1."""
    found = advise(
        [
            1000 * histogram([1.0])
            - int(1000 * share) * (histogram([1.0]) - histogram([2.0**lowest]))
        ],
        FLOAT16,
        1.0,
    )
    assert (found.largest, found.smallest, found.too_wide) == (0, lowest, too_wide)
    assert found.flushed_scaled == pytest.approx(share if lowest < -38 else 0)


@given(
    st.lists(st.integers(-126, 127), min_size=1, max_size=30),
    st.sampled_from([FLOAT16, BFLOAT16]),
    st.integers(0, 20),
)
@often
def test_advice_against_rounding(powers, format_, current):
    """With the scale advised nothing overflows.

    The shares are those that rounding gives, values of one and a half powers of two.
    """
    values = 1.5 * np.exp2(np.float64(powers))
    found = advise([histogram(values)], format_, 2.0**current)
    smallest = 2.0 ** (format_.bottom - 1)
    for scale, share in (
        (1.0, found.flushed),
        (found.scale, found.flushed_scaled),
        (2.0**current, found.flushed_now),
    ):
        assert share == pytest.approx((values * scale < smallest).mean())
    assert (values * found.scale < 2.0 ** (format_.top - 1)).all()
    assert found.used == len({p for p in powers if format_.bottom <= p <= format_.top})


@given(
    st.lists(st.integers(-126, 127), min_size=1, max_size=5), st.sampled_from([FLOAT16, BFLOAT16])
)
@often
def test_the_scale_advised_is_a_float32(powers, format_):
    found = advise([histogram(np.exp2(np.float64(powers)))], format_, 1.0)
    assert 0 < found.scale <= np.finfo(np.float32).max
