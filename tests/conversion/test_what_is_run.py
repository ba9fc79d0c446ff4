"""Which files are run, the text of names, and folders that a conversion goes to."""

from __future__ import annotations

import os
import pathlib
import shlex
import signal
import subprocess
import sys
import threading

import pytest

import graphmp
from graphmp.cli.main import run_command
from graphmp.conversion.contents import FILES
from graphmp.conversion.source import names_a_graph, parse_source
from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import serialize
from tests.support.commands import graphmp as command
from tests.support.commands import refused
from tests.support.interrupted import entries
from tests.support.places import environment
from tests.support.tiny import meta_graph

PROGRAM = "import pathlib\npathlib.Path('ran').write_text('x')\n"
GRAPH = meta_graph("x Placeholder dtype=float32", "y Relu x T=float32")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.meta").write_bytes(serialize(GRAPH))
    return tmp_path


@pytest.mark.unit
@pytest.mark.parametrize("name", ["evil.txt", "evil.json", "x.META", "evil", "evil.txt:build"])
def test_what_is_not_run(folder, capfd, name):
    (folder / name.split(":")[0]).write_text(PROGRAM)
    status, line = refused(capfd, "convert", name, "-o", "out")
    assert status == 2 and "GMP008" in line and name.split(":")[0] in line
    assert "--python" in line
    assert not (folder / "ran").exists() and not (folder / "out").exists()


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, meta",
    [
        ("checkpoint", ".meta, which lies beside it"),
        ("m.ckpt-1.index", "m.ckpt-1.meta"),
        ("m.ckpt-1.data-00000-of-00001", "m.ckpt-1.meta"),
    ],
)
def test_parts_of_checkpoints(folder, capfd, name, meta):
    (folder / name).write_text('model_checkpoint_path: "m.ckpt-1"\n')
    assert "take its " + meta in refused(capfd, "convert", name)[1]


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, text, runs",
    [
        ("a.py", "", True),
        ("a.PY", "", True),
        ("a", "#!/usr/bin/env python3\n", True),
        ("a", "#! /opt/python/bin/python\n", True),
        ("a", "#!/bin/sh\n# python\n", False),
        ("a.txt", "import os\n", False),
    ],
)
def test_what_is_a_python_file(folder, name, text, runs):
    (folder / name).write_text(text)
    assert names_a_graph(name) != runs
    assert not names_a_graph(name, python=True)
    assert parse_source(name, False, python=True).path == pathlib.Path(name)


@pytest.mark.unit
def test_a_graph_of_any_name_is_one(folder, capfd):
    for name, data in (("a", serialize(GRAPH)), ("b.txt", str(GRAPH).encode())):
        (folder / name).write_bytes(data)
        assert command(capfd, "convert", name, "-o", "out")[0] == 0


@pytest.mark.unit
@pytest.mark.parametrize("name", ["new\nline.meta", "\x1b[31m.meta", "\udcff.meta", "\x9b31m.meta"])
def test_names_are_escaped(folder, capfd, name):
    os.rename("g.meta", name)
    status, out, err = command(capfd, "convert", name, "-o", "out")
    assert status == 0 and err == ""
    assert all(line.isprintable() for line in out.splitlines())
    first, *flags = (folder / "out" / "flags.txt").read_text().splitlines()
    assert first.startswith("# graphmp convert --flagfile=flags.txt $'") and flags == []
    report = (folder / "out" / "report.json").read_text()
    assert all(line.isprintable() for line in report.splitlines())
    os.remove(name)
    status, line = refused(capfd, "convert", name, "-o", "out")
    assert status == 2 and line.rstrip("\n").isprintable()


@pytest.mark.unit
def test_flags_that_a_flagfile_cannot_repeat_are_refused(capfd):
    for flag in ("--keep_float32=a\nb", "--op_policy=\udcff", "--fetch= x"):
        status, line = refused(capfd, "convert", "g.meta", flag)
        assert status == 2 and "GMP002" in line


@pytest.mark.unit
def test_long_words_are_cut():
    line = str(GraphmpError("GMP003", "%s: %s" % ("x" * 5000, "y" * 100)))
    assert len(line) < 400 and "xxx...xxx" in line and "y" * 100 in line


@pytest.mark.unit
def test_the_original_of_a_conversion_may_be_its_source(folder, capfd):
    assert command(capfd, "convert", "g.meta", "-o", "out")[0] == 0
    before = {name: (folder / "out" / name).read_bytes() for name in FILES}
    again = command(capfd, "convert", "out/original.meta", "-o", "out", "--loss_scale=none")
    assert again[0] == 0
    assert (folder / "out" / "original.meta").read_bytes() == before["original.meta"]
    for name in ("converted.meta", "report.json"):
        status, line = refused(capfd, "convert", "out/" + name, "-o", "out")
        assert status == 2 and "GMP004" in line and "would be replaced" in line
    (folder / "out" / "original.meta").write_text(str(GRAPH))
    status, line = refused(capfd, "convert", "out/original.meta", "-o", "out")
    assert status == 2 and "would be replaced" in line
    assert (folder / "out" / "original.meta").read_text() == str(GRAPH)


@pytest.mark.unit
def test_other_inputs_are_not_replaced(folder, capfd):
    (folder / "out").mkdir()
    (folder / "out" / "flags.txt").write_text("")
    status, line = refused(capfd, "convert", "g.meta", "-o", "out", "--op_policy=out/flags.txt")
    assert status == 2 and "would be replaced" in line
    for output in ("g.meta", "out/../g.meta"):
        assert refused(capfd, "diff", "g.meta", "g.meta", "-o", output)[0] == 2
    status, line = refused(capfd, "audit", "g.meta", "--random_data", "-o", "a", "--html", "a")
    assert status == 2 and "GMP004" in line


@pytest.mark.unit
def test_check_of_what_cannot_be_read(folder, capfd):
    assert command(capfd, "convert", "g.meta", "-o", "out")[0] == 0
    os.remove("out/report.json")
    os.symlink("/dev/zero", "out/report.json")
    status, out, _ = command(capfd, "convert", "g.meta", "-o", "out", "--check")
    assert status == 1 and "report.json: out/report.json: cannot be read: it is a device" in out
    graphs = ("out/original.meta", "out/converted.meta")
    assert refused(capfd, "diff", "--check", *graphs)[0] == 2
    os.remove("out/report.json")
    (folder / "out" / "report.json").write_text('{"changes": [{"node": "y", "kind": 3}]}')
    assert "kind is 3" in refused(capfd, "diff", "--check", *graphs)[1]


@pytest.mark.unit
def test_half_replaced_folders_are_refused_by_readers(folder, capfd):
    assert command(capfd, "convert", "g.meta", "-o", "out")[0] == 0
    (folder / "out" / ".graphmp-pending").mkdir()
    graphs = ("out/original.meta", "out/converted.meta")
    for argv in (["diff", *graphs], ["verify", *graphs], ["inspect", graphs[0]]):
        assert "holds old and new files" in refused(capfd, *argv)[1]
    status, out, _ = command(capfd, "convert", "g.meta", "-o", "out", "--check")
    assert status == 1 and "half replaced" in out
    assert command(capfd, "convert", "out/original.meta", "-o", "out")[0] == 0


@pytest.mark.unit
def test_a_defect_is_one_line(capfd, monkeypatch):
    monkeypatch.setattr(graphmp.graph.io.files, "read_bytes", lambda *_: 1 // 0)
    status, line = refused(capfd, "convert", "g.meta")
    assert status == 1 and "GMP099: ZeroDivisionError" in line
    assert run_command(["graphmp", "convert", "g.meta", "--verbosity=1"]) == 1
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.unit
def test_a_graph_from_a_pipe(folder, capfd):
    os.mkfifo("pipe")
    data = (folder / "g.meta").read_bytes()
    writer = threading.Thread(target=(folder / "pipe").write_bytes, args=(data,))
    writer.start()
    assert command(capfd, "convert", "pipe", "-o", "out")[0] == 0
    writer.join()
    assert (folder / "out" / "original.meta").read_bytes() == data


@pytest.mark.unit
def test_a_folder_for_the_report_of_a_run_is_checked_first(folder, capfd):
    (folder / "train.py").write_text(PROGRAM)
    status, line = refused(capfd, "run", "--report=g.meta", "train.py")
    assert status == 2 and "GMP004: g.meta" in line and not (folder / "ran").exists()


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_ending_signal_cleans_up(folder, number, status):
    """The process is in the middle of a write when the signal comes."""
    program = """
import os, signal, sys
signal.signal(%d, signal.SIG_DFL)  # under nohup it is ignored, and stays so
from graphmp.cli import main
from graphmp.files import staging
def write(path, data, original=staging.write_new):
    original(path, data)
    os.kill(os.getpid(), %d)
staging.write_new = write
main.main(["graphmp", "convert", "g.meta", "-o", "out"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program % (number, number)],
        env=environment(),
        stderr=subprocess.PIPE,
    )
    assert done.returncode == status and done.stderr == b""
    assert entries(folder) == ["g.meta"]


@pytest.mark.unit
def test_the_next_command_quotes_names(folder, capfd):
    status, out, _ = command(capfd, "convert", "g.meta", "-o", "my out")
    words = shlex.split(out.splitlines()[-1])
    assert status == 0 and words[1:4] == ["open", "my out/diff.html,", "or:"]
    assert "my out/converted.meta" in words
