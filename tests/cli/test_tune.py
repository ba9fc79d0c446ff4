"""`graphmp tune`, and what commands do with --costs."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib

import pytest

from graphmp.bench import device
from graphmp.bench import run as bench_run
from graphmp.bench.bench import TOO_SLOW
from graphmp.bench.options import PROCESSOR, WALL
from graphmp.bench.processes import accumulation
from graphmp.bench.processes.processes import Trouble
from graphmp.bench.tune import measure, steps
from graphmp.bench.tune.tuned import Tuned
from graphmp.cli import terminal
from graphmp.cli.tune import _apart, _doubt, _remark
from graphmp.conversion.source import names_a_graph
from graphmp.graph.io.messages import serialize
from graphmp.timings import Ratio
from graphmp.tuning import files
from graphmp.tuning.costs import HALF, Machine, Time
from tests.support.bench_command import SHORT, TF1
from tests.support.benches import Local
from tests.support.classifiers import classifier
from tests.support.commands import graphmp as command

DTYPE = "float16"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune")
    (path / "train.meta").write_bytes(serialize(classifier()))
    return path


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(steps, "Process", Local)
    monkeypatch.setattr(bench_run, "Process", Local)
    monkeypatch.setattr(measure, "_STEPS", (2, 3))
    monkeypatch.setattr(measure, "_TURN", 0.0)
    monkeypatch.setattr(terminal, "_AT_ONCE", math.inf)  # no progress, however busy the machine is
    monkeypatch.setattr(accumulation, "errors", lambda dtype: {})


@pytest.fixture
def costs(here, capfd):
    """The file, made once."""
    path = pathlib.Path("x.costs")
    if not path.exists():
        flags = ["-o", str(path), "--seconds=1", "--compute_dtype=" + DTYPE]
        assert command(capfd, "tune", "train.meta", *flags)[0] == 0
    return path


@pytest.mark.unit
def test_speed_ups_that_vary_are_doubted():
    steady, wide = Ratio(1.2, 1.19, 1.21), Ratio(1.5, 1.0, 2.25)
    assert _doubt([None, steady], WALL) == []
    assert "within 50% only" in _doubt([steady, wide], WALL)[0]
    assert _doubt([wide], WALL)[0].endswith(" or by --clock=processor")
    assert _doubt([wide], PROCESSOR)[0].endswith(" or with more --seconds")


@pytest.mark.unit
def test_times_and_speed_ups_that_come_apart_are_explained():
    found, names = Tuned(), ("float32", "bytes")
    found.rounds = {"float32": [[2.0], [2.0], [8.0]], "bytes": [[1.0], [4.0], [1.0]]}
    alike = {name: Time(1e9 * least, 0, 0, 1) for name, least in zip(names, (2.0, 1.0))}
    assert _apart(alike, found) == []
    (line,) = _apart(dict(alike, bytes=Time(4e9, 0, 0, 1)), found)
    assert line.startswith("a time is that of the quickest quarter")
    assert _apart({}, found) == []


@pytest.mark.unit
def test_a_conversion_by_times_that_converts_nothing_is_told_apart():
    found = Tuned()
    assert _remark(found, "tuned") == _remark(found, "float32") == ""
    found.is_float32 = True
    assert _remark(found, "tuned") == "in float32 throughout"
    assert _remark(found, "bytes") == _remark(found, "float32") == ""


def test_text(here, capfd):
    status, out, err = command(
        capfd, "tune", "train.meta", "-o", "x.costs", "--seconds=1", "--compute_dtype=" + DTYPE
    )
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "train.meta   %s against float32, batches of 8" % DTYPE
    labels = [line.split(" ")[0] for line in lines]
    assert [label for label in labels if label][-2:] == ["wrote", "next"]
    assert lines[-1] == (
        "next         graphmp convert train.meta --costs=x.costs --compute_dtype=%s" % DTYPE
    )
    start = lines.index("steps")
    assert lines[start + 1].split() == ["measured", "predicted", "speed-up"]
    assert [line.split()[0] for line in lines[start + 2 : start + 5]] == [
        "float32", "bytes", "tuned",
    ]  # fmt: skip
    assert sum("kept" in line for line in lines) == 1
    (traced,) = [line for line in lines if line.startswith("traced")]
    assert traced.endswith("only, times are rough: give more --seconds")
    assert files.read("x.costs").source == "train.meta"


def test_a_step_in_half_precision_that_is_given_up_is_said(here, capfd, monkeypatch):
    ask = Local.ask

    def slow(self, order, *arguments, limit=None):
        if order == "first_step" and arguments[0] == HALF:
            raise Trouble(TOO_SLOW, "too slow")
        return ask(self, order, *arguments, limit=limit)

    monkeypatch.setattr(Local, "ask", slow)
    flags = ["-o", "slow.costs", "--seconds=1", "--compute_dtype=" + DTYPE]
    status, out, _ = command(capfd, "tune", "train.meta", *flags)
    assert status == 0
    (kept,) = [line for line in out.splitlines() if line.startswith("kept ")]
    assert kept.split(None, 1)[1] == (
        "float32: the first step in float16 takes more than 5 s, so that no other one was timed"
    )


def test_json(here, capfd):
    status, out, err = command(
        capfd, "tune", "train.meta", "-o", "y.costs", "--seconds=1", "--batch_size=4", "--json"
    )
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["schema"] == "graphmp.tune/1" and found["batch_size"] == 4
    assert found["compute_dtype"] == ("float16" if TF1 else found["compute_dtype"])
    assert set(found["rounds"]) == {"float32", "bytes", "tuned"}
    assert found["tuned_is_float32"] in (True, False)
    assert found["operations"] > 0 and found["faster"] in found["rounds"]


@pytest.mark.parametrize(
    "flags, code, text",
    [
        (["--batch_size=0"], "GMP002", "--batch_size and --seconds: found 0, 75"),
        (["--seconds=nan"], "GMP002", "--batch_size and --seconds: found 8, nan"),
        (["--engine=recipe"], "GMP020", "--engine=recipe: tune measures for the rewrite"),
        (["--costs=x"], "GMP020", "--costs=x: tune measures for the rewrite"),
        (["--compute_dtype=float32"], "GMP002", "accepted by tune are float16 and bfloat16"),
        (["--data=gone.npz"], "GMP003", "gone.npz"),
    ],
)
def test_bad_flags(here, capfd, flags, code, text):
    status, out, err = command(capfd, "tune", "train.meta", "-o", "z.costs", *flags)
    assert status == 2 and out == "" and err.startswith("graphmp: error %s: " % code)
    assert text in err and err.count("\n") == 1
    assert not pathlib.Path("z.costs").exists()


def test_a_file_is_needed(here, capfd):
    status, _, err = command(capfd, "tune", "train.meta")
    assert status == 2 and "GMP001" in err and "-o/--output" in err


def test_interrupted(here, capfd, monkeypatch):
    ask = Local.ask

    def interrupted(self, order, *arguments, limit=None):
        if order == "steps" and arguments[0] == "bytes":
            raise KeyboardInterrupt
        return ask(self, order, *arguments, limit=limit)

    monkeypatch.setattr(Local, "ask", interrupted)
    status, out, err = command(capfd, "tune", "train.meta", "-o", "early.costs", "--seconds=1")
    assert status == 130 and "interrupted before the end" in out
    assert err == "graphmp: interrupted; early.costs has what was measured until then\n"
    assert not files.read("early.costs").complete


@pytest.mark.parametrize("order", ["open_for_traces", "make_batches", "find"])
def test_interrupted_before_anything_is_measured(here, capfd, monkeypatch, order):
    ask = Local.ask

    def interrupted(self, ordered, *arguments, limit=None):
        if ordered == order:
            raise KeyboardInterrupt
        return ask(self, ordered, *arguments, limit=limit)

    monkeypatch.setattr(Local, "ask", interrupted)
    if order == "find":
        monkeypatch.setattr(device, "find", lambda: interrupted(None, order))
    status, out, err = command(capfd, "tune", "train.meta", "-o", "none.costs", "--seconds=1")
    assert (status, out) == (130, "")
    assert err == "graphmp: interrupted; nothing was written to none.costs\n"
    assert not pathlib.Path("none.costs").exists()


def test_convert_records_the_machine(costs, capfd):
    """Of another machine too: convert takes costs anywhere, in the same bytes."""
    found = files.read(str(costs))
    other = Machine("a GPU elsewhere", "1.15.5", 64)
    pathlib.Path("other.costs").write_bytes(files.dumps(dataclasses.replace(found, machine=other)))
    reports = []
    for folder in ("one", "two"):
        status, _, err = command(
            capfd, "convert", "train.meta", "--costs=other.costs", "-o", folder
        )
        assert (status, err) == (0, "")
        reports.append(pathlib.Path(folder, "report.json").read_bytes())
    assert reports[0] == reports[1]
    report = json.loads(reports[0].decode("utf-8"))
    assert report["costs"]["device"] == "a GPU elsewhere" and report["costs"]["threads"] == 64
    assert report["flags"]["costs"] == "other.costs"
    assert "--costs=other.costs\n" in pathlib.Path("one", "flags.txt").read_text()


def test_costs_of_another_dtype(costs, capfd):
    status, _, err = command(
        capfd, "convert", "train.meta", "--costs=x.costs", "--compute_dtype=bfloat16", "-o", "no"
    )
    assert status == 2 and err.startswith("graphmp: error GMP027: --costs=x.costs: measured with")
    assert not pathlib.Path("no").exists()


def test_explain_says_the_times(costs, capfd):
    """Made far slower in half precision: the reason has the times, the rule says what it means."""
    found = files.read(str(costs))
    rows = [
        row._replace(half=row.half._replace(nanoseconds=9e9, low=9e9, high=9e9))
        if row.signature.op == "MatMul" and row.half
        else row
        for row in found.measurements
    ]
    slow = dataclasses.replace(found, measurements=tuple(rows), faster="", half_scale=1.0)
    pathlib.Path("slow.costs").write_bytes(files.dumps(slow))
    status, out, _ = command(
        capfd, "explain", "train.meta", "MatMul", "--costs=slow.costs", "--json"
    )
    assert status == 0
    assert "measured: " in out and "9 s in float16" in out


def test_bench_has_a_column_and_markdown(costs, capfd):
    flags = ["--costs=x.costs", "--compute_dtype=" + DTYPE, "--batch_sizes=8", *SHORT]
    status, out, _ = command(capfd, "bench", "train.meta", *flags, "--format=markdown")
    assert status == 0 and names_a_graph("train.meta")
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert table[0] == "| batch | graph | ms/step | speed-up | 95% | examples/s |"
    graphs = [row.split("|")[2].strip() for row in table[2:]]
    assert graphs[:3] == ["float32", "graphmp " + DTYPE, "graphmp tuned"]
    assert all(row.count("|") == 7 for row in table)
