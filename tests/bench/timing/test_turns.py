"""Graphs that take turns in one process."""

from __future__ import annotations

import pytest

from graphmp.bench.bench import FLOAT32, GRAPHMP, OUT_OF_MEMORY, TENSORFLOW, TIMED, BenchRun
from graphmp.bench.options import BenchOptions
from graphmp.bench.processes.processes import Trouble
from graphmp.bench.timing import turns

pytestmark = pytest.mark.unit


class Script:
    """A process that records what it is asked, and refuses what it is told to."""

    def __init__(self, refuses=lambda order, asked: False):
        self.asked = []
        self._refuses = refuses

    def ask(self, order, variant, *arguments):
        self.asked.append((order, variant))
        if self._refuses(order, self.asked):
            raise Trouble(OUT_OF_MEMORY, "OOM")
        return [0.001 * len(self.asked)] * 2

    def close(self):
        self.asked.append(("ended", ""))


FIT = [BenchRun(FLOAT32, 8, TIMED), BenchRun(GRAPHMP, 8, TIMED), BenchRun(TENSORFLOW, 8, TIMED)]


BOTH = FIT[:2]


def test_rounds_are_interleaved():
    script, told = Script(), []
    found = turns.timed(FIT, "", script, BenchOptions(rounds=3, steps=2), 1.0, told.append)
    steps = [variant for order, variant in script.asked if order == "steps"]
    assert steps == [
        FLOAT32,
        GRAPHMP,
        TENSORFLOW,
        GRAPHMP,
        TENSORFLOW,
        FLOAT32,
        TENSORFLOW,
        FLOAT32,
        GRAPHMP,
    ]
    assert (
        [order for order, _ in script.asked[:4]] == ["open"] * 3 + ["steps"]
        and len(told) == 4
        and told[-1] == 0
    )
    assert [len(each.rounds) for each in found] == [3] * 3 and not any(each.apart for each in found)


def test_sessions_that_do_not_fit_together_are_opened_one_by_one():
    script = Script(lambda order, asked: order == "open" and len(asked) == 2)
    found = turns.timed(BOTH, "", script, BenchOptions(rounds=2, steps=2), 1.0, lambda left: None)
    assert script.asked[2] == ("ended", "")
    assert script.asked[3:] == [
        (order, name)
        for name in (FLOAT32, GRAPHMP, GRAPHMP, FLOAT32)
        for order in ("open", "steps", "close")
    ]
    assert all(each.apart and each.status == TIMED and len(each.rounds) == 2 for each in found)


def test_what_fits_alone_and_not_in_turn_is_a_result():
    found = turns.timed(
        BOTH,
        "",
        Script(lambda order, asked: order == "steps"),
        BenchOptions(),
        1.0,
        lambda left: None,
    )
    assert [(each.status, each.message) for each in found] == [
        (OUT_OF_MEMORY, "alone it runs; beside the others: OOM")
    ] * 2
