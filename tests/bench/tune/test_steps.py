"""Whole steps of a tuning's graphs, in one process or two."""

from __future__ import annotations

import pytest

from graphmp.bench.processes.feeds import BatchFile
from graphmp.bench.timing import schedule
from graphmp.bench.tune import steps
from graphmp.bench.tune.options import TuneOptions
from tests.support.benched import CPU

pytestmark = pytest.mark.unit
SECONDS = 8.0


@pytest.fixture
def started(monkeypatch):
    """The processes that were started; they take their time from a clock of the test."""
    found, clock = [], [0.0]

    class Process:
        opening = 0.0  # seconds of a graph

        def __init__(self, *_):
            found.append(self)
            self.step = 0.01 * len(found)
            self.open = set()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def ask(self, order, variant, path, count, *_):
            opens = order == "open" and variant not in self.open
            clock[0] += self.opening * opens + count * self.step
            self.open.add(variant)
            return [self.step] * count

    monkeypatch.setattr(steps, "Process", Process)
    monkeypatch.setattr(schedule, "now", lambda: clock[0])
    return found


def timed(conversion, folder, told):
    processes = steps.StepProcesses(conversion, CPU, TuneOptions(), folder)
    processes.made = BatchFile(8, 8, "batches.npz", None)
    graphs = {"float32": conversion.original, "bytes": conversion.meta_graph}
    with processes.starter:
        return processes.timed(graphs, SECONDS, told.append)


def test_steps_are_timed_in_two_processes(conversion, started, tmp_path):
    told = []
    rounds = timed(conversion, tmp_path, told)
    assert [{*each} for each in rounds["bytes"]] == [{0.01}] * 5 + [{0.02}] * 5
    assert len(rounds["float32"]) == 10 and len(started) == 2
    assert told == [pytest.approx(SECONDS, abs=0.2), SECONDS / 2]


def test_graphs_whose_opening_is_dear_are_opened_once(conversion, started, tmp_path, monkeypatch):
    monkeypatch.setattr(steps.Process, "opening", SECONDS)
    told = []
    rounds = timed(conversion, tmp_path, told)
    assert {*map(tuple, rounds["bytes"])} == {(0.01,) * len(rounds["bytes"][0])}
    assert len(rounds["float32"]) == 10 and len(started) == 1 and told == [SECONDS]
