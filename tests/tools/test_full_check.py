"""tools/full_check, on a fake Python: its steps end as told, and a second run resumes the first."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.places import TOOLS

# Answers the script's questions; a step ends with the status in the file `outcomes` for a word of
# its command.
PYTHON = """#!/bin/sh
case "$*" in
  *tf.__version__*) echo 1.15.5 ;;
  *graphmp.__version__*) echo 0.0 ;;
  *python_version*) echo 3.7.16 ;;
  *)
    echo "$*" >>"$PRETENDED/commands"
    while read -r word status; do
      case "$*" in *"$word"*) echo "told to end with $status"; exit "$status" ;; esac
    done <"$PRETENDED/outcomes"
    ;;
esac
"""


def full_check(*argv, **environment):
    command = ["bash", str(TOOLS / "full_check"), *map(str, argv)]
    done = subprocess.run(command, env=dict(os.environ, **environment), capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def pretend(tmp_path):
    """Run full_check with given outcomes of steps; return status, output, number of commands."""
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    (tmp_path / "corpus" / "meta").mkdir(parents=True)
    (tmp_path / "corpus" / "meta" / "one.meta").write_text("")

    def run(outcomes="", *flags):
        (tmp_path / "outcomes").write_text(outcomes)
        (tmp_path / "commands").write_text("")
        folders = {"PRETENDED": str(tmp_path), "GRAPHMP_CORPUS": str(tmp_path)}
        status, out, _ = full_check(*flags, python, tmp_path / "checked.txt", **folders)
        assert out == ""
        return (
            status,
            (tmp_path / "checked.txt").read_text(),
            len((tmp_path / "commands").read_text().splitlines()),
        )

    return run


def test_it_is_bash():
    assert subprocess.run(["bash", "-n", str(TOOLS / "full_check")]).returncode == 0
    assert os.access(str(TOOLS / "full_check"), os.X_OK)


def test_what_is_missing_is_said(tmp_path):
    assert full_check("no-such-python") == (2, "", "full_check: no Python no-such-python\n")
    missing = full_check(sys.executable, GRAPHMP_CORPUS=str(tmp_path / "gone"))
    assert missing == (
        2,
        "",
        "full_check: no folder with the recorded graphs: set GRAPHMP_CORPUS\n",
    )


def test_it_goes_on_where_it_stopped(pretend):
    status, text, commands = pretend("time_rewrite 3\nhypothesis-seed=4 1\n")
    assert status == 1 and commands > 12
    assert len(re.findall("^ok ", text, re.MULTILINE)) == commands - 2
    assert re.findall(r"^FAILED  (.*), graphmp .*, \d+ s\n        (.*)$", text, re.MULTILINE) == [
        ("times and memory", "told to end with 3"),
        ("1000 random graphs, seed 4", "told to end with 1"),
    ]
    assert "\n2 of its steps FAILED or STOPPED in " in text
    assert re.fullmatch(r" +%d on graphmp .*, \d{4}-\d\d-\d\d" % commands, text.splitlines()[-1])
    status, again, few = pretend()
    assert (status, few) == (0, 2)
    assert "FAILED" not in again and "\nall ok in " in again
    assert len(re.findall("^ok ", again, re.MULTILINE)) == commands


def test_only_the_steps_of_some_names(pretend):
    status, text, commands = pretend("", "--only=*graphs, seed [12]")
    assert (status, commands) == (0, 2) and re.search(
        r"\nall ok in \d+ s, \d+ steps not run\n", text
    )
    status, text, others = pretend()
    assert status == 0 and others > 12 and "not run" not in text
    assert pretend("", "--only=nothing")[0] == 2


def test_a_failed_step_stays_until_it_runs_again(pretend):
    pretend("time_rewrite 3\n", "--only=times*")
    text = pretend("", "--only=slow*")[1]
    assert "FAILED  times and memory, " in text and "\n1 of its steps FAILED or STOPPED in " in text
    text = pretend("", "--only=times*")[1]
    assert "FAILED" not in text and re.search("^ok      times and memory, ", text, re.MULTILINE)


def test_a_step_whose_name_begins_as_that_of_one_that_was_ok_runs(pretend):
    pretend("", "--only=faults in the gallery, by the rewrite")
    text = pretend("", "--only=faults in the gallery")[1]
    assert len(re.findall("^ok      faults in the gallery", text, re.MULTILINE)) == 2


def test_flags_of_the_corpus_stand_behind_its_folder(pretend, tmp_path):
    pretend()
    commands = [
        line.split()[1:]
        for line in (tmp_path / "commands").read_text().splitlines()
        if "check_corpus" in line
    ]
    assert len(commands) == 2
    for command in commands:
        behind = command[command.index(str(tmp_path / "corpus" / "meta")) + 2 :]
        assert behind == [argument for argument in command if "=" in argument] != []


def test_a_step_over_its_time_is_stopped(pretend):
    status, text, _ = pretend("check_corpus 124\n")
    assert status == 1 and re.search("^STOPPED recorded graphs in float16, ", text, re.MULTILINE)


@pytest.fixture
def changed(pretend, tmp_path):
    """A whole run, and then another package; the number of commands that it ran."""
    commands = pretend()[2]
    path = tmp_path / "checked.txt"
    path.write_text(re.sub(", graphmp [^,]*, ", ", graphmp 0000000, ", path.read_text()))
    return commands


def test_the_steps_of_another_package_are_not_taken(pretend, changed):
    assert pretend()[2] == changed


def test_they_are_if_it_is_told_to_continue(pretend, changed, tmp_path):
    path = tmp_path / "checked.txt"
    path.write_text(path.read_text().replace("ok      times", "FAILED  times"))
    status, text, few = pretend("", "--continue")
    assert (status, few) == (0, 1)
    assert re.search(r"\n +%d on graphmp 0000000, .*\n +1 on graphmp " % (changed - 1), text)
