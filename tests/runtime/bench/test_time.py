"""What a bench says of its times, and how long it takes: one estimator, rounds by the time that there is, progress, the picture."""

from __future__ import annotations

import io
import math
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.cli import bench as command_module
from graphmp.cli import terminal
from graphmp.performance import text
from graphmp.performance.bench import FLOAT32, GRAPHMP, OUT_OF_MEMORY, TENSORFLOW, TIMED, Run
from graphmp.performance.timings import speedup, step_time
from graphmp.runtime.bench import processes, schedule, turns
from graphmp.runtime.bench.options import Options
from graphmp.runtime.bench.processes import Process, Starter, Trouble
from graphmp.runtime.bench.schedule import LEAST_ROUNDS, Schedule
from tests.support.benches import a_bench, timed

SECONDS = st.floats(1e-4, 10.0)


def noisy(seed, faster=1.0, rounds=12, steps=5):
    """Rounds on a machine that others use: each round has its own speed, single steps are far off, some rounds are slow for one alone."""
    random = np.random.RandomState(seed)
    pace = np.exp(0.5 * random.standard_normal(rounds))

    def step():
        return np.exp(min(2.0, abs(0.3 * random.standard_cauchy()))) * (1 + 2 * (random.random_sample() < 0.1))

    return [[[0.01 / factor * speed * step() for _ in range(steps)] for speed in pace] for factor in (1.0, faster)]


# -- one estimator -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(SECONDS, min_size=1, max_size=5), st.lists(SECONDS, min_size=1, max_size=5)), min_size=1, max_size=8))
def test_a_speedup_is_the_quotient_of_the_step_times(pairs):
    slow, fast = zip(*pairs)
    assert speedup(slow, fast).value == pytest.approx(step_time(slow) / step_time(fast))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.5])
def test_printed_times_and_speedups_agree_however_noisy(seed, factor):
    slow, fast = noisy(seed, factor)
    found = a_bench(timed(FLOAT32, 32, rounds=slow), timed(GRAPHMP, 32, rounds=fast))
    base, ours = [command_module._row(found, run) for run in found.runs]
    quotient = float(base[2].replace(",", "")) / float(ours[2].replace(",", ""))
    assert float(ours[5][:-1]) == pytest.approx(quotient, rel=0.011)  # three digits of each time, two of the speed-up
    assert float(ours[7].replace(",", "")) / float(base[7].replace(",", "")) == pytest.approx(quotient, rel=0.011)
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


# -- rounds by the time --------------------------------------------------------------------------------------------------


class Machine:
    """A process whose steps take what they are said to, by a clock that goes on with them."""

    def __init__(self, monkeypatch, seconds):
        self.now, self._seconds = 0.0, seconds
        monkeypatch.setattr(schedule, "now", lambda: self.now)

    def ask(self, order, variant, path, count=0):
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
    runs = [Run(name, 8, TIMED, alone=seconds(name, 0.0)) for name in (FLOAT32, GRAPHMP, TENSORFLOW)]
    left = []
    found = turns.timed(runs, "", machine, Options(**options), share, lambda seconds: left.append((machine.now, seconds)))
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
    found, took, _ = rounds_of(monkeypatch, lambda variant, now: 0.006 if variant == FLOAT32 else 0.008, 60.0)
    assert [len(run.rounds) for run in found] == [schedule.ENOUGH_ROUNDS] * 3 and took < 12
    assert [len(run.rounds[0]) for run in found] == [35] * 3 or len(found[0].rounds[0]) > 10


def test_long_steps_get_the_fewest_rounds_that_have_an_interval(monkeypatch):
    found, took, left = rounds_of(monkeypatch, lambda variant, now: 10.0, 20.0)
    assert [np.shape(run.rounds) for run in found] == [(LEAST_ROUNDS, 1)] * 3 and found[0].warmup == 1
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
    assert text.methods(one) == ["3 rounds of 3 steps a graph, in turn; 3 warm-up steps before, not counted"]
    other = a_bench(*one.runs, timed(FLOAT32, 64, warmup=1, rounds=[[1.0], [1.0]]), Run(GRAPHMP, 64, OUT_OF_MEMORY))
    assert text.methods(other)[1] == "batch size 64: 2 rounds of 1 step a graph, in turn; 1 warm-up step before, not counted"


def test_where_the_time_decides_more_of_it_is_advised():
    doubtful = [[0.01, 0.011], [0.02, 0.01], [0.01, 0.03]]
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, rounds=doubtful), seconds=90.0)
    assert found.remarks == ["batch size 32: the interval includes 1, so no difference is shown; more --seconds narrow it"]
    assert text.next_step(found, True) == "graphmp bench model.meta --seconds=360, for intervals that tell more"
    same = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32), seconds=90.0)
    assert "there is no difference to speak of" in same.remarks[0] and "--seconds" not in text.next_step(same, True)


# -- progress ------------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.seconds = 100.0

    def monotonic(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(terminal.time, "monotonic", found.monotonic)
    return found


def test_lines_where_there_is_no_terminal(clock, monkeypatch):
    err = io.StringIO()
    monkeypatch.setattr(terminal.sys, "stderr", err)
    monkeypatch.setattr(terminal, "_LOOK", 1000.0)
    with terminal.reporter(100.0) as tell:
        tell("building", 190.0)
        for clock.seconds, what, ends in [
            (104.0, "building", 190.0), (106.0, "float32 alone", 190.0), (109.0, "float32 alone", 190.0), (117.0, "float32 alone", None),
            (118.0, "timing", 190.0), (189.5, "timing", 190.0), (200.0, "timing", 190.0),
        ]:  # fmt: skip
            tell(what, ends)
    assert err.getvalue().splitlines() == [
        "[0:06] float32 alone; about 1:24 left", "[0:17] float32 alone; time left not known yet", "[0:18] timing; about 1:12 left",
        "[1:30] timing; nearly done", "[1:40] timing; 0:10 longer than planned: steps are long",
    ]  # fmt: skip


def test_lines_go_on_while_one_thing_runs(monkeypatch):
    err = io.StringIO()
    monkeypatch.setattr(terminal.sys, "stderr", err)
    for name, value in (("_AT_ONCE", 0.0), ("_EVERY", 0.02), ("_LOOK", 0.01)):
        monkeypatch.setattr(terminal, name, value)
    with terminal.reporter(terminal.time.monotonic()) as tell:
        tell("one long step", None)
        terminal.time.sleep(0.2)
    assert err.getvalue().count("one long step; time left not known yet\n") >= 3


def test_a_bar_on_a_terminal(clock, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    err = Terminal()
    monkeypatch.setattr(terminal.sys, "stderr", err)
    monkeypatch.setitem(os.environ, "TERM", "xterm")
    monkeypatch.setitem(os.environ, "COLUMNS", "100")
    with terminal.reporter(100.0) as tell:
        clock.seconds = 130.0
        tell("timing at batch size 32", 190.0)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err.getvalue())
    assert re.search(r"timing at batch size 32 .*\u2501.* 0:30; about 1:00 left", shown), shown


# -- processes -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_are_forked_from_one_that_imported_tensorflow(tmp_path):
    specification = processes.spec({}, 0, False)
    with Starter(tmp_path) as starter:
        with Process(specification, starter) as process:
            assert set(process.ask("accumulation", "float16")) == {"matmul", "convolution"}
            first = starter._child.pid
        with Process(specification, starter) as process:
            with pytest.raises(Trouble, match="float32"):
                process.ask("fit", FLOAT32, "gone", 1.0)
            assert process.ask("accumulation", "float16")  # it goes on
        assert starter._child.pid == first
        with Process(dict(specification, trainings=None), starter) as process, pytest.raises(Trouble, match=r"exited with status 1; .*printed last"):
            process.ask("accumulation", "float16")
        assert starter._child.pid == first
    assert starter._child is None


# -- the picture ---------------------------------------------------------------------------------------------------------


def test_a_picture_marks_what_leaves_it_and_suggests_nothing():
    pytest.importorskip("matplotlib")
    from graphmp.performance import plot

    wild = [[0.01], [0.1], [0.001]]
    found = a_bench(
        *(timed(FLOAT32, size) for size in (32, 64)), timed(GRAPHMP, 32, 1.5), timed(GRAPHMP, 64, rounds=wild), Run(TENSORFLOW, 64, OUT_OF_MEMORY)
    )
    drawn = plot.render(found, "svg").decode()
    ratio = found.speedup(found.run(GRAPHMP, 64))
    assert ratio.high > 10 * ratio.value and "<!-- %.3g -->" % ratio.high in drawn and "goes on to the number" in drawn
    assert "<!-- 1.2x: below it, likely causes -->" in drawn and "<!-- 1.2x -->" in drawn
    calm = plot.render(a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5)), "svg").decode()
    assert "goes on" not in calm and math.isfinite(ratio.high)
