"""SOURCE, --data and the files of rules are never replaced by what a command writes."""

from __future__ import annotations

import pytest

from tests.support.commands import refused

MODEL = "m.py:build"
DATA = "--data=feeds.py:batches"
WRITERS = [
    ["tune", "-o"],
    ["audit", "--fix"],
    ["audit", "--html"],
    ["audit", "-o"],
    ["bench", "--plot"],
]
READ = {
    "m.py": [MODEL, DATA],
    "feeds.py": [MODEL, DATA],
    "batches.npz": [MODEL, "--data=batches.npz"],
    "my.policy": [MODEL, DATA, "--op_policy=my.policy"],
    "my.ranges": [MODEL, DATA, "--ranges=my.ranges"],
    "my.costs": [MODEL, DATA, "--costs=my.costs"],
}
CASES = [
    (command, flag, read)
    for command, flag in WRITERS
    for read in READ
    if (flag, read) != ("--fix", "my.policy")  # a repair extends the policy
]


@pytest.mark.unit
@pytest.mark.parametrize("command, flag, read", CASES)
def test_a_file_that_is_read_is_not_replaced(tmp_path, monkeypatch, capfd, command, flag, read):
    monkeypatch.chdir(tmp_path)
    (tmp_path / read).write_text("mine")
    status, line = refused(capfd, command, *READ[read], flag, read)
    assert status == 2 and "GMP004" in line and "would be replaced" in line
    assert (tmp_path / read).read_text() == "mine"


@pytest.mark.unit
@pytest.mark.parametrize(
    "flags", [["--verify", "--data=out/report.json:f"], ["--costs=out/report.json"]]
)
def test_a_file_that_convert_reads_is_not_replaced(tmp_path, monkeypatch, capfd, flags):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text("mine")
    status, line = refused(capfd, "convert", "g.meta", "-o", "out", *flags)
    assert status == 2 and "would be replaced" in line


@pytest.mark.unit
@pytest.mark.parametrize("name", ["train.py", "my.policy"])
def test_a_file_that_run_reads_is_not_replaced(tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    for each in ("train.py", "my.policy"):
        (tmp_path / each).write_text("")
    flags = ["--op_policy=my.policy", "--tune_file=" + name]
    status, line = refused(capfd, "run", *flags, "train.py")
    assert status == 2 and "GMP004" in line and "would be replaced" in line


@pytest.mark.unit
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--tune_file=/no/folder/x", "train.py"],
        ["run", "--report=train.py/out", "train.py"],
        ["tune", "train.py", "-o", "/no/folder/x"],
        ["audit", "train.py", "--random_data", "-o", "/no/folder/x"],
        ["audit", "train.py", "--random_data", "--fix=/no/folder/x"],
        ["audit", "train.py", "--random_data", "--html=/no/folder/x"],
        ["bench", "train.py", "--plot=/no/folder/x.svg"],
        ["convert", "train.py", "-o", "train.py/out"],
    ],
    ids=" ".join,
)
def test_an_output_that_cannot_be_is_refused_before_anything_runs(
    tmp_path, monkeypatch, capfd, arguments
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')")
    status, line = refused(capfd, *arguments)
    assert status == 2 and line.startswith("graphmp: error GMP004: ")


@pytest.mark.unit
def test_a_file_that_nothing_would_be_written_to_is_refused(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    status, line = refused(capfd, "run", "--tune_file=y", "--costs=x", "train.py")
    assert status == 2 and line.startswith("graphmp: error GMP002: --tune_file=y: ")


@pytest.mark.unit
@pytest.mark.parametrize(
    "arguments, flag",
    [
        (["run", "--tune_file=", "train.py"], "--tune_file"),
        (["run", "--report", "", "train.py"], "--report"),
        (["run", "--costs=", "-m", "train"], "--costs"),
        (["tune", "g.meta", "-o", ""], "--output"),
        (["bench", "g.meta", "--plot="], "--plot"),
        (["audit", "g.meta", "--data="], "--data"),
        (["convert", "g.meta", "--op_policy="], "--op_policy"),
        (["explain", "g.meta", "x", "--tag="], "--tag"),
        (["convert", ""], "SOURCE"),
    ],
)
def test_an_empty_value_is_refused(tmp_path, monkeypatch, capfd, arguments, flag):
    """As of a shell's variable that isn't set."""
    monkeypatch.chdir(tmp_path)
    status, line = refused(capfd, *arguments)
    assert status == 2 and line.startswith("graphmp: error GMP002: %s: it is empty; give" % flag)
