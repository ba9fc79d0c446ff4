"""Statistics of timings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from graphmp.timings import order, speedup, spread
from tests.support.benched import ROUNDS

pytestmark = pytest.mark.unit


def test_spread_is_that_of_all_steps():
    steps = np.concatenate(ROUNDS)
    assert spread(ROUNDS) == pytest.approx(
        (np.median(steps), *np.percentile(steps, [25, 75]), steps.min(), steps.max())
    )


def test_speedup_is_paired_by_rounds():
    fast = [[second / factor for second in steps] for steps, factor in zip(ROUNDS, (1.5, 1.6, 1.8))]
    logs = np.log([1.5, 1.6, 1.8])
    low, high = stats.t.interval(0.95, 2, loc=logs.mean(), scale=stats.sem(logs))
    assert speedup(ROUNDS, fast) == pytest.approx(
        (stats.gmean([1.5, 1.6, 1.8]), math.exp(low), math.exp(high))
    )
    assert speedup(ROUNDS, fast).shows_a_difference
    assert not speedup(ROUNDS, ROUNDS).shows_a_difference


def test_a_slow_round_for_all_changes_no_speedup():
    slow = [[10 * second for second in steps] for steps in ROUNDS[:1]] + ROUNDS[1:]
    halved = [[second / 2 for second in steps] for steps in slow]
    assert speedup(slow, halved) == pytest.approx((2.0, 2.0, 2.0))


def test_one_round_has_no_interval():
    ratio = speedup(ROUNDS[:1], [[0.005, 0.0055, 0.006]])
    assert ratio == (pytest.approx(2.0), None, None) and not ratio.shows_a_difference


def test_each_variant_begins_equally_often():
    assert [order("abc", number) for number in range(4)] == [
        list("abc"),
        list("bca"),
        list("cab"),
        list("abc"),
    ]
    assert order(["one"], 3) == ["one"]
