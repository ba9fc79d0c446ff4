"""The drawings of an audit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphmp.audit.render.drawing import (
    NOT_FINITE,
    OVERFLOWS,
    SUBNORMAL,
    VANISHES,
    ZERO,
    HistogramFrame,
    drawn,
    linear_top,
    loss_chart,
    scaled,
    superscript,
)
from graphmp.policy.formats import BFLOAT16, EXPONENT_BIAS, FLOAT16
from tests.support.audits import exponents

pytestmark = pytest.mark.unit


def test_bars_lie_in_the_zone_that_their_values_end_in():
    frame = HistogramFrame(FLOAT16, [exponents(-30, 1)])
    zones = {
        exponent: frame.bins[frame.fields[exponent + EXPONENT_BIAS]].zone
        for exponent in (-26, -25, -15, -14, 15, 16)
    }
    assert zones == {
        -26: VANISHES,
        -25: SUBNORMAL,
        -15: SUBNORMAL,
        -14: "normal",
        15: "normal",
        16: OVERFLOWS,
    }
    assert [frame.bins[frame.fields[field]].zone for field in (0, 255)] == [ZERO, NOT_FINITE]


@pytest.mark.parametrize("format_", [FLOAT16, BFLOAT16])
def test_bars_stand_beside_each_other_inside_the_drawing(format_):
    frame = HistogramFrame(format_, [exponents(-126, *[1] * 254)])
    edges = [(each.x, each.x + each.width) for each in frame.bins]
    assert all(end <= start + 1e-6 for (_, end), (start, _) in zip(edges, edges[1:]))
    assert edges[0][0] >= 0 and edges[-1][1] <= 560
    assert sum(frame.shares(exponents(-126, *[1] * 254, zeros=9, not_finite=1))) == pytest.approx(1)


def test_a_range_as_wide_as_the_values_need():
    assert (
        HistogramFrame(FLOAT16, [exponents(-3, 1)]).low,
        HistogramFrame(FLOAT16, [exponents(-3, 1)]).high,
    ) == (
        -40,
        22,
    )
    assert HistogramFrame(FLOAT16, [exponents(-50, 1)]).low == -50
    assert HistogramFrame(FLOAT16, [exponents(-100, 1)]).low == -64


def test_a_scale_moves_values_and_leaves_zeros():
    moved = scaled(exponents(-30, 3, 4, zeros=5, not_finite=6), 256.0)
    assert np.array_equal(moved, exponents(-22, 3, 4, zeros=5, not_finite=6))
    assert scaled(exponents(-126, 3), 0.5).sum() == scaled(exponents(120, 3), 2.0**20).sum() == 3


def test_the_outline_of_scaled_values_is_drawn_once_an_axis():
    counts = exponents(-30, 3, 4)
    frame = HistogramFrame(FLOAT16, [counts])
    picture = drawn(frame, counts, scaled(counts, 256.0), "\u00d7 256")
    assert picture.count('class="ghost"') == picture.count("\u00d7 256") == 2
    assert drawn(frame, counts).count('class="ghost"') == 0


def test_no_share_is_above_a_linear_axis():
    for part in (0.0, 0.003, 0.07, 0.21, 0.9, 1.0):
        assert part <= linear_top([part]) <= 1


def test_a_chart_of_losses_that_are_not_finite():
    for values in ([], [1.0], [math.nan, math.inf], [0.0, 0.0], [1e38, -1e38]):
        chart = loss_chart(
            values, values, [0.0 if math.isfinite(value) else math.inf for value in values], "x"
        )
        assert "nan" not in chart and "inf" not in chart
    assert "&lt;0.0001%" in loss_chart([1.0], [1.0], [1e-9], "x")


def test_superscripts():
    assert superscript(-40) == "\u207b\u2074\u2070"
