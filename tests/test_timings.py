"""Statistics of timings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from graphmp.timings import fastest, order, speedup, spread
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


@pytest.mark.parametrize(
    "rounds, name",
    [
        ({"float32": [[5.0], [5.1]], "bytes": [[5.2], [5.3]], "tuned": [[4.0], [4.1]]}, "tuned"),
        ({"float32": [[4.0], [4.1]], "bytes": [[5.2], [5.3]], "tuned": [[5.0], [5.1]]}, "float32"),
        ({"float32": [[4.0], [4.1]], "bytes": [[3.2], [3.3]], "tuned": [[5.0], [5.1]]}, "bytes"),
        ({"float32": [[4.0], [9.0]], "bytes": [[9.0], [3.9]], "tuned": [[5.0], [5.1]]}, "bytes"),
        ({"float32": [[4.0], [4.3], [9.0]], "tuned": [[4.1], [4.1], [4.1]]}, "tuned"),
        ({"float32": [[4.0], [9.0], [4.1]], "tuned": [[5.0], [5.1], [5.0]]}, "float32"),
        ({"float32": [[4.0]], "tuned": [[5.0]]}, "float32"),
        ({"float32": [[4.0]], "tuned": [[4.0]]}, "tuned"),
        ({"float32": [[5.0]] * 8, "tuned": [[4.9], [9.0]] * 4}, "float32"),
        ({"float32": [[5.0], [9.1]] * 2, "tuned": [[4.9], [9.0]] * 2}, "tuned"),
    ],
)
def test_the_shortest_step_is_kept_unless_rounds_show_another_to_be_faster(rounds, name):
    assert fastest(rounds) == name
