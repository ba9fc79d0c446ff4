"""One estimator gives the times and the speed-ups of a bench."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.bench.bench import FLOAT32, GRAPHMP
from graphmp.cli import benched
from graphmp.timings import speedup, step_time
from tests.support.benched import a_bench, timed

pytestmark = pytest.mark.unit

SECONDS = st.floats(1e-4, 10.0)


def noisy(seed, faster=1.0, rounds=12, steps=5):
    """Rounds on a machine that others use.

    Each round has its own speed, single steps are far off, some rounds are slow for one alone.
    """
    random = np.random.RandomState(seed)
    pace = np.exp(0.5 * random.standard_normal(rounds))

    def step():
        return np.exp(min(2.0, abs(0.3 * random.standard_cauchy()))) * (
            1 + 2 * (random.random_sample() < 0.1)
        )

    return [
        [[0.01 / factor * speed * step() for _ in range(steps)] for speed in pace]
        for factor in (1.0, faster)
    ]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(SECONDS, min_size=1, max_size=5), st.lists(SECONDS, min_size=1, max_size=5)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_speedup_is_the_quotient_of_the_step_times(pairs):
    slow, fast = zip(*pairs)
    assert speedup(slow, fast).value == pytest.approx(step_time(slow) / step_time(fast))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.5])
def test_printed_times_and_speedups_agree_however_noisy(seed, factor):
    slow, fast = noisy(seed, factor)
    found = a_bench(timed(FLOAT32, 32, rounds=slow), timed(GRAPHMP, 32, rounds=fast))
    base, ours = [benched._row(found, run) for run in found.runs]
    quotient = float(base[2].replace(",", "")) / float(ours[2].replace(",", ""))
    assert float(ours[5][:-1]) == pytest.approx(
        quotient, rel=0.011
    )  # three digits of each time, two of the speed-up
    assert float(ours[7].replace(",", "")) / float(base[7].replace(",", "")) == pytest.approx(
        quotient, rel=0.011
    )
    low, high = map(float, ours[6].split("-"))
    assert low <= float(ours[5][:-1]) <= high


def test_the_faster_graph_has_the_smaller_time_where_medians_of_all_steps_say_otherwise():
    slow = [[6.0], [6.66], [20.0]]
    fast = [[5.0], [7.98], [15.0]]
    assert np.median(slow) < np.median(fast) and step_time(slow) > step_time(fast)
    assert speedup(slow, fast).value > 1


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says():
    ends = [speedup(*noisy(seed, 1.25, rounds=8)) for seed in range(300)]
    assert sum(each.low <= 1.25 <= each.high for each in ends) / len(ends) >= 0.92
