"""Progress of a bench: lines where there is no terminal, a bar on one."""

from __future__ import annotations

import io
import os
import re

import pytest

from graphmp.cli import terminal

pytestmark = pytest.mark.unit


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
    err, line = io.StringIO(), "one long step; time left not known yet\n"
    monkeypatch.setattr(terminal.sys, "stderr", err)
    for name, value in (("_AT_ONCE", 0.0), ("_EVERY", 0.02), ("_LOOK", 0.01)):
        monkeypatch.setattr(terminal, name, value)
    with terminal.reporter(terminal.time.monotonic()) as tell:
        tell("one long step", None)
        for _ in range(6000):
            if err.getvalue().count(line) >= 3:
                break
            terminal.time.sleep(0.01)
    assert err.getvalue().count(line) >= 3


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
