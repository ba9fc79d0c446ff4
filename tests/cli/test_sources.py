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
