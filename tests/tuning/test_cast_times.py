"""The times of casts, in a step and alone."""

import pytest

from graphmp.tuning.cast_times import cast_times, scaled, slower
from graphmp.tuning.costs import CastTime, Time
from tests.support.costed import exactly

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "times, factor",
    [({100: 30.0}, 3.0), ({100: 5.0}, 1.0), ({}, 1.0), ({100: 40.0, 400: 80.0, 200: 1e6}, 4.0)],
)
def test_casts_in_a_step_are_slower_than_alone(times, factor):
    alone = [CastTime("half", size, exactly(size / 10)) for size in (10, 1000)]
    there = [CastTime("half", size, exactly(time)) for size, time in times.items()]
    assert slower(there, alone) == pytest.approx(factor)
    assert scaled(alone[0], 3.0).time == exactly(3.0)


def test_casts_of_one_size_count_alike():
    """One that is quickest by its place doesn't give all of its size their time."""
    rows = [("half", 64, [5.0] * 3), ("float32", 64, [1.0]), ("half", 64, [3.0, 9.0, 4.0] * 8)]
    assert cast_times(rows) == (
        CastTime("float32", 64, Time(1.0, 1.0, 1.0, 1)),
        CastTime("half", 64, Time(3.0, 3.0, 5.0, 9)),
    )
