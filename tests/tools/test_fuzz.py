"""tools/fuzz.py: the same cases for the same seed, their verdicts, and the table."""

from __future__ import annotations

import faulthandler
import importlib
import os
import pathlib
import signal
import sys

import pytest

from tests.support.places import TOOLS


@pytest.fixture(scope="module")
def fuzz():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield importlib.import_module("fuzz")


@pytest.fixture
def runner(fuzz):
    return importlib.import_module("fuzzing.runner")


def write(text):
    def judge(status):
        sys.stdout.write(text)
        sys.stdout.flush()
        return ""

    return judge


def leave(status):
    pathlib.Path(".graphmp-left").write_text("")
    return ""


def crash(status):
    faulthandler.disable()  # pytest's own traces
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize(
    "argv, judge, kind",
    [
        (["--version"], lambda status: "", "success"),
        (["diff", "gone", "gone"], lambda status: "", "one line"),
        (["--version"], crash, "signal"),
        (["--version"], lambda status: "mixed: [a]", "mixed"),
        (["--version"], lambda status: 1 // 0, "broken case"),
        (["--version"], write("\x1b[31m"), "control character"),
        (["--version"], write("Traceback (most recent call last)"), "traceback"),
        (["--version"], leave, "left behind"),
    ],
)
def test_verdicts(runner, argv, judge, kind):
    assert runner.run_case(lambda rng: runner.Case(argv, judge), "x", 1, 0).kind == kind


def test_a_hang_is_ended(runner, monkeypatch):
    monkeypatch.setattr(runner, "WALL", 0.2)
    wait = lambda status: signal.pause()  # noqa: E731
    assert runner.run_case(lambda rng: runner.Case(["--version"], wait), "x", 1, 0).kind == "hang"


@pytest.mark.parametrize(
    "family", ["kinds", "flagfiles", "reports", "signals", "faults", "bytes", "measured"]
)
def test_a_family(fuzz, capsys, family):
    assert fuzz.main(["--cases=3", "--family=" + family]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "family" and lines[1].split()[0] == family
    assert lines[2].startswith("ok: 3 cases, 0 failed; seed 1; ")


def test_cases_are_the_same_for_the_same_seed(fuzz, capsys, tmp_path):
    for name in ("one", "other"):
        assert fuzz.main(["--repeat=flagfiles:4", "--keep=%s" % (tmp_path / name)]) == 0
    one, other = (tmp_path / name / "argv" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes() != b""
    assert "--seed=1 --repeat=flagfiles:4" in capsys.readouterr().out


def test_all_families_are_in_a_turn(fuzz):
    planned = fuzz._planned(fuzz._arguments(["--cases=300"]))
    assert len(planned) == len(set(planned)) == 300
    assert {name for name, _ in planned} == set(fuzz.FAMILIES)
