"""`graphmp diff`: exit status, forms, files, the report beside B, and what a script may rely on."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from graphmp.cli import diff
from graphmp.cli.main import run_command
from graphmp.cli.parser import build_parser
from graphmp.compare import api as compare_module
from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import serialize
from tests.support.commands import Terminal
from tests.support.places import ROOT, environment
from tests.support.tiny import meta_graph

BEFORE = meta_graph("x X", "y Relu x T=float32")
AFTER = meta_graph("x X", "c Cast x SrcT=float32 DstT=float16", "y Relu c T=float16")
REPORT = {
    "changes": [
        {
            "node": "y",
            "change": "dtype of T: float32 -> float16",
            "kind": "allow",
            "reason": "allow",
        },
        {
            "node": "y",
            "change": "edge via cast of input 0: x -> c",
            "kind": "cast down",
            "reason": "reads a cast",
        },
        {"node": "c", "change": "node added", "reason": "a cast"},
    ]
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with before.meta, after.meta and a copy of the first, same.pbtxt, in
    another form.
    """
    (tmp_path / "before.meta").write_bytes(serialize(BEFORE))
    (tmp_path / "after.meta").write_bytes(serialize(AFTER))
    (tmp_path / "same.pbtxt").write_text(str(BEFORE.graph_def))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def graphmp_diff(*argv):
    args = build_parser({"diff": diff}, "0").parse_args(["diff", *argv])
    return args.run(args)


@pytest.mark.unit
def test_exit_status_is_that_of_diff(folder, capsys):
    assert graphmp_diff("before.meta", "same.pbtxt") == 0
    assert graphmp_diff("before.meta", "after.meta") == 1
    assert capsys.readouterr().err == ""


@pytest.mark.unit
@pytest.mark.parametrize(
    "argv, code",
    [
        (["gone.meta", "after.meta"], "GMP003"),
        (["before.meta", "gone.meta"], "GMP003"),
        (["before.meta", "."], "GMP008"),
        (["before.meta", "after.meta", "--format=pdf"], "GMP001"),
        (["before.meta"], "GMP001"),
        (["before.meta", "after.meta", "--format=dot"], "GMP001"),
        (["before.meta", "after.meta", "--node=y"], "GMP001"),
        (["before.meta", "after.meta", "--format=dot", "--node=gone"], "GMP002"),
        (["before.meta", "after.meta", "--format=dot", "--node=y", "--depth=0"], "GMP001"),
        (["before.meta", "after.meta", "--format=model-explorer"], "GMP001"),
        (["before.meta", "after.meta", "--format=model-explorer", "-o", "before.meta"], "GMP004"),
        (["before.meta", "after.meta", "-o", "no/such/folder"], "GMP004"),
        (["before.meta", "after.meta", "--report=gone.json"], "GMP003"),
        (["before.meta", "after.meta", "--report=after.meta"], "GMP002"),
    ],
)
def test_trouble_is_2(folder, argv, code):
    with pytest.raises(GraphmpError) as caught:
        graphmp_diff(*argv)
    assert (caught.value.code, caught.value.exit_status) == (code, 2)


@pytest.mark.unit
@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"changes": [], "float32_nodes": [{"nodes": "x"}]}',
        '{"changes": 1}',
        '{"changes": [1]}',
        '{"changes": [{"reason": "no node"}]}',
        "{",
        "\xff",
    ],
)
def test_what_is_no_report(folder, content, caplog):
    (folder / "report.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(GraphmpError, match=r"GMP002: --report=report\.json: no"):
        graphmp_diff("before.meta", "after.meta", "--report=report.json")
    assert graphmp_diff("before.meta", "after.meta") == 1  # beside B it may be some other program's
    assert "no reasons" in caplog.text


@pytest.mark.unit
@pytest.mark.parametrize("status", [0, 1, 2])
def test_no_error_comes_out_as_1(folder, monkeypatch, status):
    def fail(*args):
        raise GraphmpError("GMP013", "it fails", status)

    monkeypatch.setattr(compare_module, "compare", fail)
    with pytest.raises(GraphmpError, match="GMP013: it fails") as caught:
        graphmp_diff("before.meta", "after.meta")
    assert caught.value.exit_status == 2


@pytest.mark.unit
def test_a_fault_of_graphmp_is_2_and_shows_itself(folder, monkeypatch, capsys):
    monkeypatch.setattr(compare_module, "compare", lambda *args: 1 // 0)
    assert run_command(["graphmp", "diff", "before.meta", "after.meta"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("graphmp: error GMP099: ZeroDivisionError: ") and err.count("\n") == 1


@pytest.mark.unit
def test_a_closed_pipe_reaches_the_caller(folder, monkeypatch):
    class Closed(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        graphmp_diff("before.meta", "after.meta")


@pytest.mark.unit
@pytest.mark.parametrize("flags", [[], ["--check"]])
def test_the_next_command_quotes_names(folder, capsys, flags):
    (folder / "my model.meta").write_bytes((folder / "before.meta").read_bytes())
    graphmp_diff("my model.meta", "after.meta", *flags)
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[: 5 + len(flags)] == [
        *("next", "graphmp", "diff", *flags), "my model.meta", "after.meta",
    ]  # fmt: skip


@pytest.mark.unit
def test_text_ends_with_what_to_do_next(folder, capsys):
    graphmp_diff("before.meta", "after.meta")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 changes: 1 dtype, 1 edge via cast, 1 node added"
    assert (
        lines[-1] == "next         graphmp diff before.meta after.meta --format=html -o diff.html"
    )
    graphmp_diff("before.meta", "same.pbtxt")
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == (
        "no changes",
        "next         nothing to do: before.meta and same.pbtxt are the same graph",
    )


@pytest.mark.unit
def test_the_next_command_works(folder, capsys):
    graphmp_diff("before.meta", "after.meta")
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert graphmp_diff(*command[3:]) == 1
    assert "<title>before.meta | after.meta</title>" in (folder / "diff.html").read_text(
        encoding="utf-8"
    )
    assert capsys.readouterr().out.splitlines()[-1] == "next         open diff.html"


@pytest.mark.unit
@pytest.mark.parametrize("flags", [["--json"], ["--format=json"]])
def test_json(folder, capsys, flags):
    assert graphmp_diff("before.meta", "after.meta", *flags) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["schema"], value["before"], value["after"]) == (
        "graphmp.diff/1",
        "before.meta",
        "after.meta",
    )
    assert value["counts"] == {"dtype": 1, "edge via cast": 1, "node added": 1}


@pytest.mark.unit
@pytest.mark.parametrize(
    "form, start",
    [
        ("markdown", "**3 changes"),
        ("html", "<!DOCTYPE html>"),
        ("json", "{"),
        ("text", "3 changes"),
        ("dot", "digraph"),
    ],
)
def test_forms_on_stdout_and_in_a_file(folder, capsys, form, start):
    flags = ["--format=%s" % form] + ["--node=y"] * (form == "dot")
    assert graphmp_diff("before.meta", "after.meta", *flags) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(start)
    assert graphmp_diff("before.meta", "after.meta", *flags, "-o", "out") == 1
    written = (folder / "out").read_text(encoding="utf-8")
    assert printed.startswith(written)
    assert (printed == written) == (form != "text")  # text alone says on stdout what to do next
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["diff", "wrote", "next"]


@pytest.mark.unit
def test_report_beside_b_is_joined(folder, capsys):
    (folder / "sub").mkdir()
    (folder / "sub" / "after.meta").write_bytes(serialize(AFTER))
    (folder / "sub" / "report.json").write_text(json.dumps(REPORT))
    graphmp_diff("before.meta", "sub/after.meta")
    assert "; all explained" in capsys.readouterr().out
    graphmp_diff("sub/after.meta", "before.meta")
    assert "explained" not in capsys.readouterr().out


@pytest.mark.unit
def test_report_that_is_named_wins(folder, capsys):
    (folder / "report.json").write_text(json.dumps(REPORT))
    (folder / "other.json").write_text(json.dumps({"changes": REPORT["changes"][:2]}))
    graphmp_diff("before.meta", "after.meta", "--report=other.json")
    printed = capsys.readouterr().out
    assert "; 1 unexplained" in printed
    assert "  c  + Cast DstT=float16 SrcT=float32  # unexplained" in printed
    assert printed.splitlines()[-1].startswith("next         graphmp convert")


@pytest.mark.unit
def test_check_is_for_ci(folder, capsys):
    (folder / "report.json").write_text(json.dumps(REPORT))
    assert graphmp_diff("before.meta", "after.meta", "--check") == 0
    printed = capsys.readouterr().out
    assert "  proved          explained" in printed
    assert (
        printed.splitlines()[-2]
        == "check        passed: every difference is explained, every claim is proved"
    )
    assert "dtype (1)" not in printed
    assert (
        graphmp_diff("before.meta", "same.pbtxt", "--check") == 1
    )  # the report is of other graphs
    assert "stale" in capsys.readouterr().out


@pytest.mark.unit
def test_check_fails_on_what_nothing_explains(folder, capsys):
    (folder / "report.json").write_text(json.dumps({"changes": REPORT["changes"][1:]}))
    assert graphmp_diff("before.meta", "after.meta", "--check") == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  y  T float32 -> float16  # unexplained" in lines
    assert lines[-1].startswith("next         graphmp convert the source again")


@pytest.mark.unit
def test_check_fails_where_a_proof_does(folder, capsys):
    for name, dtype in (("before.meta", "float32"), ("after.meta", "float16")):
        (folder / name).write_bytes(serialize(meta_graph("v VariableV2 dtype=%s" % dtype)))
    row = {"node": "v", "change": "dtype of dtype: float32 -> float16", "reason": "it is explained"}
    (folder / "report.json").write_text(json.dumps({"changes": [row]}))
    assert graphmp_diff("before.meta", "after.meta", "--check") == 1
    printed = capsys.readouterr().out
    assert ["failed", "variables", "0 of 1 float32; 1 variable changed, renamed or gone"] in [
        re.split(" {2,}", line.strip()) for line in printed.splitlines()
    ]
    assert printed.splitlines()[-2] == "check        failed: variables, types"


@pytest.mark.unit
def test_check_without_a_report(folder, capsys):
    assert graphmp_diff("before.meta", "same.pbtxt", "--check") == 0
    assert graphmp_diff("before.meta", "after.meta", "--check") == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "check        failed: no report explains the differences",
        (
            "next         graphmp diff --check before.meta after.meta --report=FILE, the"
            " report.json of the conversion"
        ),
    ]
    assert (
        graphmp_diff("before.meta", "after.meta", "--check", "--format=json", "-o", "out.json") == 1
    )
    assert "check        failed: no report explains the differences" in capsys.readouterr().out
    assert json.loads((folder / "out.json").read_text())["identical"] is False


@pytest.mark.unit
def test_all_expands_what_repeats(folder, capsys):
    (folder / "one.meta").write_bytes(
        serialize(meta_graph("x X", "a_1 Relu x T=float32", "a_2 Relu x T=float32"))
    )
    (folder / "two.meta").write_bytes(
        serialize(meta_graph("x X", "a_1 Relu x T=float16", "a_2 Relu x T=float16"))
    )
    graphmp_diff("one.meta", "two.meta")
    assert "  a_*  T float32 -> float16  x2" in capsys.readouterr().out
    for form in ("text", "markdown"):
        graphmp_diff("one.meta", "two.meta", "--all", "--format=%s" % form)
        assert "  a_2  T float32 -> float16\n" in capsys.readouterr().out


@pytest.mark.unit
def test_model_explorer(folder, capsys):
    assert (
        graphmp_diff("before.meta", "after.meta", "--format=model-explorer", "-o", "explorer") == 1
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "next         python explorer/open.py"
    for name in (
        "original",
        "converted",
        "sync_navigation",
        "node_data_original",
        "node_data_converted",
    ):
        assert json.loads((folder / "explorer" / (name + ".json")).read_text()), name


@pytest.mark.unit
def test_colour_on_a_terminal_only(folder, monkeypatch, capsys):
    (folder / "report.json").write_text('{"changes": []}')
    graphmp_diff("before.meta", "after.meta")
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", Terminal())
    graphmp_diff("before.meta", "after.meta")
    coloured = sys.stdout.getvalue()
    assert "\x1b[1m3 changes" in coloured
    assert "\x1b[33m  y  T float32 -> float16  # unexplained" in coloured


@pytest.mark.unit
def test_names_that_look_like_markup_or_do_not_fit_the_terminal(folder, monkeypatch, capsys):
    name = "[bold]\u00e9[/bold]"
    graph = meta_graph("x X", "y Relu x T=float32", "%s NoOp" % name)
    (folder / "named.meta").write_bytes(serialize(graph))
    monkeypatch.setattr(sys, "stdout", Terminal())
    graphmp_diff("before.meta", "named.meta")
    assert name in sys.stdout.getvalue()
    for terminal in (False, True):
        ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
        ascii_only.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stdout", ascii_only)
        assert graphmp_diff("before.meta", "named.meta") == 1
        assert b"[bold]\\xe9[/bold]" in ascii_only.buffer.getvalue()


def test_the_command_is_there_before_tensorflow():
    script = "import sys, graphmp.cli.diff; sys.exit('tensorflow' in sys.modules)"
    root = ROOT
    assert (
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=str(root),
            env=dict(os.environ, PYTHONPATH=str(root)),
        ).returncode
        == 0
    )


def test_stderr_is_one_line_or_nothing(folder):
    """In a process of its own, where TensorFlow is imported by the command."""
    script = (
        "import sys, graphmp.cli.diff as d, graphmp.cli.parser as p; a = p.build_parser({'diff':"
        " d}, '0').parse_args(); sys.exit(a.run(a))"
    )
    command = [sys.executable, "-c", script, "diff", "before.meta", "after.meta", "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads(done.stdout.decode())["identical"] is False


def test_reads_from_a_pipe(folder):
    os.mkfifo("pipe")
    writer = subprocess.Popen(["cp", "before.meta", "pipe"])
    assert graphmp_diff("before.meta", "pipe") == 0
    assert writer.wait() == 0
