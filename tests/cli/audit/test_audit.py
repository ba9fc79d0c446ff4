"""`graphmp audit` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from graphmp.cli.main import run_command
from tests.support.audit_command import STEPS
from tests.support.places import environment


def test_nothing_but_the_result_in_a_process_of_its_own(folder):
    arguments = [
        sys.executable,
        "-m",
        "graphmp",
        "audit",
        "good.meta",
        "--random_data",
        STEPS,
        "--json",
    ]
    done = subprocess.run(arguments, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode())["agrees"] is True


@pytest.mark.unit
def test_help_has_examples(capfd):
    with pytest.raises(SystemExit) as ended:
        run_command(["graphmp", "audit", "--help"])
    assert ended.value.code == 0
    out = capfd.readouterr().out
    assert (
        "graphmp audit model.ckpt.meta --data batches.npz" in out
        and "--keep_float32" in out
        and "Exit status" in " ".join(out.split())
    )
