"""Long work says what it is at where stderr is no terminal, too."""

from __future__ import annotations

import time

import pytest

from graphmp.cli import terminal

pytestmark = pytest.mark.unit


def test_a_stage_that_takes_long_is_said(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_SILENT", 0.02)
    with terminal.progress(3) as begin:
        begin("reading")
        begin("proving")
        time.sleep(0.5)
    said = capsys.readouterr()
    assert said.err.startswith("[0:00] proving, 2 of 3\n") and not said.out


def test_short_work_says_nothing(capsys):
    with terminal.progress(3) as begin:
        begin("reading")
    assert not capsys.readouterr().err
