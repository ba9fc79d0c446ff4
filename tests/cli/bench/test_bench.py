"""`graphmp bench` in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from graphmp.cli.main import run_command
from tests.support.bench_command import SHORT, TF1
from tests.support.places import environment


def unsaid(err):
    """What is on stderr beside progress."""
    return re.sub(
        r"(?m)^\[\d+:\d\d\] .*; (about \d+:\d\d left|nearly done|.* longer than planned.*|time left"
        r" not known yet)\n",
        "",
        err,
    )


@pytest.mark.slow
def test_nothing_but_the_result_with_processes_of_their_own(folder):
    arguments = [
        sys.executable,
        "-m",
        "graphmp",
        "bench",
        "train.meta",
        "--batch_sizes=4",
        *SHORT,
        "--json",
    ]
    done = subprocess.run(arguments, env=environment(), capture_output=True, check=False)
    assert (done.returncode, unsaid(done.stderr.decode())) == (0, "")
    value = json.loads(done.stdout.decode())
    assert [each["status"] for each in value["runs"]] == ["timed"] * (2 if TF1 else 3)
    assert all(
        each["peak_bytes"] > 0
        and each["peak_rss_bytes"] > 10**8
        and each["kernels"]["products"] > 0
        for each in value["runs"]
    )


@pytest.mark.unit
def test_help_has_examples(capfd):
    with pytest.raises(SystemExit) as ended:
        run_command(["graphmp", "bench", "--help"])
    assert ended.value.code == 0
    out = capfd.readouterr().out
    assert (
        "graphmp bench model.ckpt.meta --batch_sizes 32,64,128" in out
        and "--keep_float32" in out
        and "Exit status" in " ".join(out.split())
    )
