"""Whole steps of a tuning's graphs, in one process or two."""

from __future__ import annotations

import pytest

from graphmp.bench.timing import schedule
from graphmp.bench.tune import steps
from graphmp.bench.tune.options import TuneOptions
from tests.support.benched import CPU
from tests.support.benches import Local


@pytest.mark.parametrize("dear, processes", [(0.0, 2), (60.0, 1)])
def test_steps_are_timed_in_two_processes_if_opening_is_cheap(
    conversion, tmp_path, monkeypatch, dear, processes
):
    """Opening a graph takes `dear` seconds more, of a minute for the steps."""
    now, late, started = schedule.now, [0.0], []

    class Process(Local):
        def __init__(self, specification, starter):
            super().__init__(specification, starter)
            started.append(self)

        def ask(self, order, *arguments, limit=None):
            late[0] += dear if order == "open" else 0.0
            if order == "steps" and len(started) == 2 and arguments[2] > 2:
                return [0.5] * arguments[2]
            return super().ask(order, *arguments, limit=limit)

    monkeypatch.setattr(steps, "Process", Process)
    monkeypatch.setattr(schedule, "now", lambda: now() + late[0])
    timed = steps.StepProcesses(conversion, CPU, TuneOptions(), tmp_path)
    with timed.starter:
        graphs = {"float32": conversion.original, "bytes": conversion.meta_graph}
        with timed.process(timed.written(graphs)) as process:
            timed.make_batches(process)
        del started[:]
        rounds = timed.timed(graphs, 1.0 if not dear else 60.0)
    assert len(started) == processes and set(rounds) == {"float32", "bytes"}
    assert len(rounds["float32"]) == len(rounds["bytes"]) >= 3
    of_second = [set(each) == {0.5} for each in rounds["bytes"]]
    assert of_second == [False] * 5 + [True] * 5 if processes == 2 else not any(of_second)
