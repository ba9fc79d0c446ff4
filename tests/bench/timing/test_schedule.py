"""Steps and rounds that fit the time of a bench."""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.bench.bench import FLOAT32, GRAPHMP, OUT_OF_MEMORY, TENSORFLOW, TIMED, BenchRun
from graphmp.bench.options import BenchOptions
from graphmp.bench.render import text
from graphmp.bench.timing import schedule, turns
from graphmp.bench.timing.schedule import LEAST_ROUNDS, Schedule
from tests.support.benched import a_bench, timed

pytestmark = pytest.mark.unit


class Machine:
    """A process whose steps take what they are said to, by a clock that goes on with them."""

    def __init__(self, monkeypatch, seconds):
        self.now, self._seconds = 0.0, seconds
        monkeypatch.setattr(schedule, "now", lambda: self.now)

    def ask(self, order, variant, path, count=0, clock="wall"):
        if order == "steps":
            taken = [self._seconds(variant, self.now) for _ in range(count)]
            self.now += sum(taken)
            return taken
        if order == "open":
            self.now += count * self._seconds(variant, self.now)
        return None

    def close(self):
        pass


def rounds_of(monkeypatch, seconds, share, **options):
    machine = Machine(monkeypatch, seconds)
    runs = [
        BenchRun(name, 8, TIMED, alone=seconds(name, 0.0))
        for name in (FLOAT32, GRAPHMP, TENSORFLOW)
    ]
    left = []
    found = turns.timed(
        runs,
        "",
        machine,
        BenchOptions(**options),
        share,
        lambda seconds: left.append((machine.now, seconds)),
    )
    return found, machine.now, left


def unsteady(mean):
    random = np.random.RandomState(0)
    return lambda variant, now: mean * float(np.exp(0.3 * random.standard_normal()))


@pytest.mark.parametrize("mean", [0.03, 0.4, 1.5])
def test_rounds_fill_the_time_and_no_more(monkeypatch, mean):
    found, took, left = rounds_of(monkeypatch, unsteady(mean), 60.0)
    assert 40.0 < took < 62.0
    assert all(len(run.rounds) >= 8 for run in found) or mean > 1
    assert all(len({len(steps) for steps in run.rounds}) == 1 for run in found)
    assert all(abs(now + seconds - took) < 20 for now, seconds in left)


def test_rounds_end_when_the_speedup_is_known(monkeypatch):
    found, took, _ = rounds_of(
        monkeypatch, lambda variant, now: 0.006 if variant == FLOAT32 else 0.008, 60.0
    )
    assert [len(run.rounds) for run in found] == [schedule.ENOUGH_ROUNDS] * 3 and took < 12
    assert [len(run.rounds[0]) for run in found] == [35] * 3 or len(found[0].rounds[0]) > 10


def test_long_steps_get_the_fewest_rounds_that_have_an_interval(monkeypatch):
    found, took, left = rounds_of(monkeypatch, lambda variant, now: 10.0, 20.0)
    assert [np.shape(run.rounds) for run in found] == [(LEAST_ROUNDS, 1)] * 3 and found[
        0
    ].warmup == 1
    assert took == 30 * (1 + LEAST_ROUNDS) and left[-1][1] == 0


@pytest.mark.parametrize(
    "options, shape",
    [
        (dict(steps=7, rounds=2), (2, 7)),
        (dict(rounds=4), (4, 10)),
        (dict(steps=7), (schedule.ENOUGH_ROUNDS, 7)),
    ],
)
def test_what_is_given_is_done(monkeypatch, options, shape):
    found, _, left = rounds_of(monkeypatch, lambda variant, now: 0.1, 1000.0, warmup=5, **options)
    assert [np.shape(run.rounds) for run in found] == [shape] * 3 and found[0].warmup == 5
    assert left[-1][1] == 0 or "rounds" not in options


def test_a_schedule_counts_its_rounds_by_what_one_takes(monkeypatch):
    monkeypatch.setattr(schedule, "now", lambda: 10.0)
    assert Schedule(steps=1, rounds=5, ends=0.0).left(0, 10.0, 2.0) == 10.0
    assert Schedule(steps=1, rounds=5, ends=0.0).left(2, 4.0, 2.0) == 9.0
    assert Schedule(steps=1, rounds=0, ends=70.0).left(2, 4.0, 2.0) == 60.0


def test_how_it_was_timed_is_said_by_batch_size():
    one = a_bench(timed(FLOAT32, 32, warmup=3), timed(GRAPHMP, 32, warmup=3))
    assert text.methods(one) == [
        "3 rounds of 3 steps a graph, in turn; 3 warm-up steps before, not counted"
    ]
    other = a_bench(
        *one.runs,
        timed(FLOAT32, 64, warmup=1, rounds=[[1.0], [1.0]]),
        BenchRun(GRAPHMP, 64, OUT_OF_MEMORY),
    )
    assert (
        text.methods(other)[1]
        == "batch size 64: 2 rounds of 1 step a graph, in turn; 1 warm-up step before, not counted"
    )


def test_where_the_time_decides_more_of_it_is_advised():
    doubtful = [[0.01, 0.011], [0.02, 0.01], [0.01, 0.03]]
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, rounds=doubtful), seconds=90.0)
    assert found.remarks == [
        "batch size 32: the interval includes 1, so no difference is shown; more --seconds"
        " narrow it"
    ]
    assert (
        text.next_step(found, True)
        == "graphmp bench model.meta --seconds=360, for intervals that tell more"
    )
    same = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32), seconds=90.0)
    assert "there is no difference to speak of" in same.remarks[
        0
    ] and "--seconds" not in text.next_step(same, True)
