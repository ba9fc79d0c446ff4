"""Errors of `graphmp audit` are one line."""

from __future__ import annotations

import os

import pytest

from tests.support.audit_command import STEPS
from tests.support.commands import refused


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["good.meta"], "GMP001: "),
        (["good.meta", "--data=data.npz", "--random_data"], "GMP001: "),
        (["--random_data"], "GMP001: "),
        (["gone.meta", "--random_data"], "GMP003: gone.meta"),
        (["good.meta", "--data=gone.npz"], "GMP003: --data=gone.npz: cannot be read"),
        (["good.meta", "--data=feeds.py"], "GMP002: --data=feeds.py: accepted are"),
        (["good.meta", "--data=feeds.py:gone"], "GMP002: --data=feeds.py:gone: the file has no function gone"),
        (["good.meta", "--data=feeds.py:incomplete"], "GMP002: --data=feeds.py:incomplete: nothing for labels"),
        (["good.meta", "--data=missing.npz"], "GMP002: --data=missing.npz: nothing for labels"),
        (["good.meta", "--data=shape.npz"], "GMP002: --data=shape.npz: "),
        (["good.meta", "--data=labels.npz"], "GMP024: step 0 does not run: "),
        (["untrained.meta", "--random_data"], "GMP023: untrained.meta: no training step was found in the graph; name it with --train_op=OP"),
        (["good.meta", "--random_data", "--steps=0"], "GMP002: --steps, --batch_size and --tolerance: found 0, 8, 0.1"),
        (["good.meta", "--random_data", "--batch_size=0"], "GMP002: --steps"),
        (["good.meta", "--random_data", "--tolerance=0"], "GMP002: --steps"),
        (["good.meta", "--random_data", "--tolerance=nan"], "GMP002: --steps"),
        (["good.meta", "--random_data", "--steps=many"], "GMP001: "),
        (["good.meta", "--random_data", "--engine=recipe"], "GMP020: --engine=recipe: "),
        (["good.meta", "--random_data", "--compute_dtype=float32"], "GMP020: --compute_dtype=float32: "),
        (["good.meta", "--random_data", "--arithmetic=exact"], "GMP001: "),
        (["good.meta", "--random_data", "--checkpoint=gone"], "GMP003: --checkpoint=gone"),
        (["good.meta", "--random_data", "-o", "file.txt/audit.json"], "GMP004: file.txt: cannot be written"),
        (["good.meta", "--random_data", "--html=."], "GMP004: .: cannot be written: it is a folder"),
        (["good.meta", "--random_data", "--fix=file.txt/model.policy"], "GMP004: file.txt: cannot be written"),
        (["good.meta", "--random_data", "--op_policy=gone.policy"], "GMP003: --op_policy=gone.policy"),
        (["good.meta", "--random_data", "--ranges=data.npz"], "GMP003: --ranges=data.npz"),
    ],
)  # fmt: skip
def test_trouble_is_one_line(folder, capfd, arguments, message):
    (folder / "file.txt").write_text("")
    status, err = refused(capfd, "audit", *arguments)
    assert err.startswith("graphmp: error " + message), err
    assert "Graph execution error" not in err, err
    assert status in (1, 2) and (status == 2 or "GMP024" in err)


def test_a_function_that_fails_is_named(folder, capfd):
    status, err = refused(capfd, "audit", "good.meta", "--data=feeds.py:failing")
    assert status == 2 and "--data=feeds.py:failing: step 0" in err and "no data today" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["good.meta", "--data=labels.npz"],
        ["untrained.meta", "--random_data"],
        ["gone.meta", "--random_data"],
    ],
)
def test_good_files_are_not_replaced_where_it_fails(folder, capfd, arguments):
    names = ["audit.json", "audit.html", "model.policy"]
    for name in names:
        (folder / name).write_text("of an audit before")
    before = sorted(path.name for path in folder.iterdir())
    refused(capfd, "audit", *arguments, "-o", names[0], "--html=" + names[1], "--fix=" + names[2])
    assert [(folder / name).read_text() for name in names] == ["of an audit before"] * 3
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == before


def test_a_file_is_replaced_whole_or_not_at_all(folder, capfd, monkeypatch):
    (folder / "audit.json").write_text("of an audit before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    refused(capfd, "audit", "good.meta", "--data=data.npz", STEPS, "-o", "audit.json")
    assert (folder / "audit.json").read_text() == "of an audit before"
    assert [path.name for path in folder.iterdir() if "audit.json" in path.name] == ["audit.json"]
