"""Errors of `graphmp bench` are one line."""

from __future__ import annotations

import pytest

from graphmp.cli import bench as command_module
from tests.support.commands import refused


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "GMP001: "),
        (["gone.meta"], "GMP003: gone.meta"),
        (["untrained.meta"], "GMP023: untrained.meta: no training step was found"),
        (["train.meta", "--batch_sizes="], "GMP002: --batch_sizes=: accepted are numbers above zero with commas between, such as 32,64"),
        (["train.meta", "--batch_sizes=8,0"], "GMP002: --batch_sizes=8,0: "),
        (["train.meta", "--batch_sizes=8,many"], "GMP002: --batch_sizes=8,many: "),
        (["train.meta", "--batch_sizes=-4"], "GMP002: --batch_sizes=-4: "),
        (["train.meta", "--steps=0"], "GMP002: --steps=0: accepted are numbers above zero"),
        (["train.meta", "--rounds=-1"], "GMP002: --rounds=-1: accepted are numbers above zero"),
        (["train.meta", "--seconds=0"], "GMP002: --seconds=0: accepted are numbers above zero"),
        (["train.meta", "--seconds=inf"], "GMP002: --seconds=inf: accepted are numbers above zero"),
        (["train.meta", "--warmup=none"], "GMP001: "),
        (["train.meta", "--memory_limit=2"], "GMP002: --memory_limit=2: accepted is a number above zero with a unit, such as 1500MB or 2GB"),
        (["train.meta", "--memory_limit=0GB"], "GMP002: --memory_limit=0GB: "),
        (["train.meta", "--compute_dtype=float8"], "GMP002: --compute_dtype=float8"),
        (["train.meta", "--data=gone.npz"], "GMP003: --data=gone.npz: cannot be read"),
        (["train.meta", "--data=feeds.py"], "GMP002: --data=feeds.py: accepted are"),
        (["train.meta", "--data=feeds.py:incomplete"], "GMP002: --data=feeds.py:incomplete: nothing for labels"),
        (["train.meta", "--data=labels.npz"], "GMP024: train.meta: the step does not run: "),
        (["train.meta", "--plot=bench.jpg"], "GMP002: --plot=bench.jpg: accepted are names that end in .png or .svg"),
        (["train.meta", "--plot=file.txt/bench.png"], "GMP004: file.txt: cannot be written"),
        (["train.meta", "--verify_tensor_cores"], "GMP020: --verify_tensor_cores: found CPU with AMX_BF16 and AVX512_BF16; accepted is a GPU"),
    ],
)  # fmt: skip
def test_trouble_is_one_line(folder, capfd, arguments, message):
    pytest.importorskip("matplotlib")
    (folder / "file.txt").write_text("")
    status, err = refused(capfd, "bench", *arguments)
    assert status == 2 and err.startswith("graphmp: error " + message), err
    assert "Graph execution error" not in err


def test_missing_costs_are_named_before_a_graph_is_read(folder, capfd):
    status, err = refused(capfd, "bench", "gone.meta", "--costs=gone.costs")
    assert status == 2 and err.startswith("graphmp: error GMP003: --costs=gone.costs: "), err


@pytest.mark.unit
def test_a_missing_matplotlib_is_named_before_any_work(folder, capfd, monkeypatch):
    monkeypatch.setattr(command_module.importlib.util, "find_spec", lambda name: None)
    status, err = refused(capfd, "bench", "train.meta", "--plot=bench.png")
    assert (
        status == 2
        and "--plot=bench.png: matplotlib, which draws it, is not installed: pip install 'graphmp[plot]'"
        in err
    )
