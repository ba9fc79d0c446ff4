"""Glass: what crashes, hangs or fills the memory in a child is one error here."""

import faulthandler
import math
import os
import signal

import pytest

from graphmp import glass
from graphmp.cli.main import run_command
from graphmp.errors import GraphmpError
from graphmp.gate import functions
from tests.support import hostile_graphs as hostile

DOING = "importing the graph"


def killed():
    faulthandler.disable()  # pytest's own traces
    os.kill(os.getpid(), signal.SIGSEGV)


def spins():
    while True:
        pass


def says():
    glass.raise_memory_error(ValueError("another"))
    glass.raise_memory_error(ValueError("Unable to evaluate a constant node"))


def refuses():
    raise GraphmpError("GMP008", "no graph")


@pytest.mark.unit
def test_without_glass_the_function_runs_here():
    assert glass.guarded(os.getpid, DOING) == os.getpid()


def test_behind_glass_it_runs_in_a_child():
    with glass.behind_glass():
        assert glass.guarded(os.getpid, DOING) != os.getpid()
        glass.open_glass()
        assert glass.guarded(os.getpid, DOING) == os.getpid()
    assert glass.guarded(os.getpid, DOING) == os.getpid()


@pytest.mark.parametrize(
    "function, said",
    [
        (killed, r"TensorFlow crashed \(SIGSEGV\) while importing the graph"),
        (spins, "TensorFlow did not end within 0 s while importing the graph"),
        (lambda: len(bytearray(300 << 20)), "needed more than 200 MB while importing the graph"),
        (says, "needed more than 200 MB while importing the graph"),
    ],
    ids=["crash", "hang", "memory", "memory in TensorFlow's words"],
)
def test_a_crash_is_one_error(function, said, monkeypatch):
    monkeypatch.setattr(glass, "SECONDS", 0.5)
    with glass.behind_glass(), pytest.raises(GraphmpError, match=said) as error:
        glass.guarded(function, DOING)
    assert error.value.code == "GMP028"


def test_errors_of_the_child_are_raised_here():
    with glass.behind_glass(), pytest.raises(GraphmpError, match="no graph") as error:
        glass.guarded(refuses, DOING)
    assert error.value.code == "GMP008"
    assert error.value.exit_status == 2


@pytest.mark.parametrize(
    "name", ["functions that call each other", "Unpack", "_class that is no text"]
)
def test_what_crashes_tensorflow_is_one_line(name, tmp_path, capfd):
    path = tmp_path / "bad.meta"
    path.write_bytes(hostile.made(hostile.REFUSED[name]).SerializeToString())
    assert run_command(["graphmp", "convert", str(path), "-o", str(tmp_path / "out")]) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if "graphmp:" in line]
    assert len(lines) == 1 and lines[0].startswith("graphmp: error GMP008: ")
    assert not (tmp_path / "out").exists()


def test_an_import_that_never_ends_is_one_line(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(glass, "SECONDS", 1.0)
    monkeypatch.setattr(functions, "MOST_CALLS", math.inf)
    path = tmp_path / "twice.meta"
    made = hostile.made(hostile.REFUSED["functions that call twice"])
    path.write_bytes(made.SerializeToString())
    assert run_command(["graphmp", "convert", str(path), "-o", str(tmp_path / "out")]) == 2
    assert "GMP028: TensorFlow did not end within" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
