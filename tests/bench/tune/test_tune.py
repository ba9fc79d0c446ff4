"""Tuning a small classifier from its traces to a conversion by what was measured."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

import graphmp
from graphmp.bench.processes import processes
from graphmp.bench.processes.processes import Trouble
from graphmp.bench.tune import halving, measure, steps, tune
from graphmp.bench.tune.options import TuneOptions
from graphmp.doctor.devices import Device
from graphmp.errors import GraphmpError
from graphmp.policy.dtypes import names_half
from graphmp.session.steps.casts import measure as measure_casts
from graphmp.tuning import files
from graphmp.tuning.costs import FLOAT32, HALF, WHOLE
from graphmp.tuning.machine import matches_this_machine
from tests.support.benched import CPU, TF1
from tests.support.benches import Local
from tests.support.classifiers import half_already
from tests.support.tiny import meta_graph

QUICK = TuneOptions(seconds=1.0)


@pytest.fixture
def local(monkeypatch):
    monkeypatch.setattr(steps, "Process", Local)
    monkeypatch.setattr(measure, "_STEPS", (2, 3))
    monkeypatch.setattr(measure, "_TURN", 0.0)


@pytest.fixture
def tuned(conversion, local, tmp_path):
    path = tmp_path / "x.costs"
    told = []
    found = tune.tune(conversion, CPU, QUICK, path, lambda what, ends: told.append(what))
    return found, path, told


def test_costs_from_traces_to_a_conversion(conversion, tuned):
    found, path, told = tuned
    costs = files.read(str(path))
    assert costs.complete and not found.interrupted
    assert costs.faster in ("float32", "bytes", "tuned") and costs.placement
    assert matches_this_machine(costs.machine) is None
    assert (costs.batch_size, costs.compute_dtype) == (8, conversion.report["compute_dtype"])
    products = [each for each in costs.measurements if "MatMul" in str(each.signature)]
    assert products and all(each.float32 and each.half for each in products)
    assert all(0 < each.float32.nanoseconds <= each.float32.high for each in products)
    assert {cast.to for cast in costs.casts} == {"float32", "half"}
    assert set(costs.steps) == {
        "float32", "bytes", "tuned", "float32_operations", "half_operations", "float32_whole",
        "half_whole",
    }  # fmt: skip
    assert 0.5 <= costs.half_scale <= 2.0
    assert [*dict.fromkeys(told)][:5] == (
        [
            "converting to half precision",
            "making batches",
            "timing operations",
            "converting by what was measured",
            "timing steps",
        ]
    )
    by_costs = graphmp.convert(conversion.original, costs=str(path))
    report = by_costs.report["costs"]
    assert report["placement"] == costs.placement
    assert report["kept"] in (costs.faster, "float32")  # float32, too, where little is saved
    assert report["nodes"]["measured"] > 0 and report["nodes"]["unknown"] == 0
    assert set(report["predicted_step_ns"]) == {"bytes", "half", "tuned"}
    assert report["device"] == costs.machine.device
    for name in ("float32", "tuned"):
        assert report["measured_step_ns"][name] > 0
    assert [row["status"] for row in by_costs.report["checks"]].count("failed") == 0


def test_a_step_that_is_too_slow_in_half_precision_stays_float32(
    conversion, local, tmp_path, monkeypatch
):
    """As on a CPU that emulates it."""
    ask = Local.ask

    def slow(self, order, *arguments, limit=None):
        if order == "first_step" and arguments[0] == HALF:
            assert limit is not None
            raise Trouble(measure.TOO_SLOW, "too slow")
        return ask(self, order, *arguments, limit=limit)

    monkeypatch.setattr(Local, "ask", slow)
    path = tmp_path / "x.costs"
    tune.tune(conversion, CPU, QUICK, path)
    report = graphmp.convert(conversion.original, costs=str(path), compute_dtype="float16").report
    assert report["losses"][0]["scale"] == ""  # which float32 doesn't need
    assert report["coverage"]["converted_ops"] == 0 and report["costs"]["kept"] == FLOAT32
    (text,) = {row["reason"] for row in report["float32_nodes"] if row["kind"] == "measured"}
    assert (
        "measured: the whole step takes " in text
        and "?" not in text
        and "more than 5 s with what may be" in text
    )
    assert not [row for row in report["warnings"] if row["code"] == "GMP102"]
    assert [row["code"] for row in report["warnings"]].count("GMP120") == 1


def test_a_first_step_on_a_gpu_may_take_long(conversion, local, tmp_path, monkeypatch):
    """There cuDNN tries the algorithms of each convolution."""
    ask, limits = Local.ask, []

    def watched(self, order, *arguments, limit=None):
        if order == "first_step":
            limits.append(limit)
        return ask(self, order, *arguments, limit=limit)

    monkeypatch.setattr(Local, "ask", watched)
    found = tune.tune(conversion, Device("GPU", (9, 0)), QUICK, tmp_path / "x.costs")
    assert limits == [None, None] and found.costs.measurements


@pytest.mark.parametrize("at, written", [("tensors", False), ("trace", False), ("steps", True)])
def test_what_was_measured_outlives_an_interruption(
    conversion, local, tmp_path, monkeypatch, at, written
):
    ask = Local.ask

    def interrupted(self, order, *arguments, limit=None):
        if order == at and arguments[0] not in [WHOLE % name for name in (FLOAT32, HALF)]:
            raise KeyboardInterrupt
        return ask(self, order, *arguments, limit=limit)

    monkeypatch.setattr(Local, "ask", interrupted)
    path = tmp_path / "x.costs"
    found = tune.tune(conversion, CPU, QUICK, path)
    assert found.interrupted and path.exists() == written == (found.costs is not None)
    if written:
        costs = files.read(str(path))
        assert not costs.complete and not costs.faster and costs.measurements
        assert graphmp.convert(conversion.original, costs=str(path)).report["costs"]


@pytest.fixture
def interruptible():
    """Ctrl-C ends a call, which a shell's background job ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_second_interruption_waits_until_the_file_is_written(
    conversion, local, interruptible, tmp_path, monkeypatch
):
    dumps = files.dumps

    def interrupted(costs):
        os.kill(os.getpid(), signal.SIGINT)
        return dumps(costs)

    monkeypatch.setattr(tune._Tuner, "compared", lambda tuner: None)
    monkeypatch.setattr(files, "dumps", interrupted)
    path = tmp_path / "x.costs"
    found = tune.tune(conversion, CPU, QUICK, path)
    assert found.interrupted and files.read(str(path)).measurements


def test_an_interruption_while_processes_end_loses_nothing(
    conversion, local, tmp_path, monkeypatch
):
    def interrupted(starter, *error):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune._Tuner, "compared", lambda tuner: None)
    monkeypatch.setattr(tune._Tuner, "halved", lambda tuner: None)
    monkeypatch.setattr(processes.Starter, "__exit__", interrupted)
    path = tmp_path / "x.costs"
    found = tune.tune(conversion, CPU, QUICK, path)
    assert found.interrupted and found.costs is not None and path.exists()


def test_a_graph_that_does_not_train(local, tmp_path):
    conversion = graphmp.convert(meta_graph("x Placeholder dtype=float32", "y MatMul x x"))
    with pytest.raises(GraphmpError, match=r"GMP023: .*no training step was found"):
        tune.tune(conversion, CPU, QUICK, tmp_path / "x.costs")
    assert list(pathlib.Path(tmp_path).iterdir()) == []


@pytest.mark.unit
def test_a_graph_that_is_half_already_is_refused_before_any_work(local, tmp_path):
    told = []
    with pytest.raises(GraphmpError, match=r"GMP020: .*tune has nothing to time: already half"):
        tune.tune(
            graphmp.convert(half_already()),
            CPU,
            QUICK,
            tmp_path / "x.costs",
            lambda what, ends: told.append(what),
        )
    assert not told and list(pathlib.Path(tmp_path).iterdir()) == []


def test_casts_are_timed_alone():
    start, rows = measure_casts("float16" if TF1 else "bfloat16", [16, 1024], 0.2)
    assert 0 <= start < 1e6
    assert [(to, size) for to, size, _ in rows] == [
        ("half", 16), ("float32", 16), ("half", 1024), ("float32", 1024),
    ]  # fmt: skip
    assert all(0 < time < 1e9 for _, _, times in rows for time in times)


class OneSlowNode:
    """Steps timed by hand: slower than float32 with a node in half precision, else faster."""

    def __init__(self, slow):
        self.slow = slow

    def timed(self, meta_graphs, seconds):
        found = {}
        for name, each in meta_graphs.items():
            half = {
                node.name
                for node in each.graph_def.node
                if names_half(node) and node.op == "MatMul"
            }
            base = 5.0 - 0.5 * len(half - self.slow) + 2.0 * len(half & self.slow)
            found[name] = [[base], [1.01 * base], [1.02 * base]]
        return found


@pytest.fixture
def slow_node(conversion, local, monkeypatch):
    """A matmul that slows a step down in half precision; questions take no time."""
    products = [
        node.name
        for node in conversion.meta_graph.graph_def.node
        if node.op == "MatMul" and names_half(node)
    ]
    assert len(products) > 1
    by_hand = OneSlowNode({products[0]})
    monkeypatch.setattr(
        steps.StepProcesses,
        "timed",
        lambda self, graphs, seconds, *_: by_hand.timed(graphs, seconds),
    )
    monkeypatch.setattr(halving, "_QUESTION", (0.0, 0.0))
    return products[0]


def test_a_region_that_slows_the_step_down_stays_float32(conversion, slow_node, tmp_path):
    path = tmp_path / "x.costs"
    found = tune.tune(conversion, CPU, TuneOptions(seconds=60.0), path)
    costs = files.read(str(path))
    assert found.kept == "regions" and slow_node in costs.float32_nodes
    assert costs.faster in ("bytes", "tuned") and costs.steps["regions"].nanoseconds > 0
    assert found.speedup("regions").value > 1.0
    by_costs = graphmp.convert(conversion.original, costs=str(path))
    coverage = by_costs.report["coverage"]
    assert 0 < coverage["converted_ops"] < coverage["tensor_core_ops"]
    reasons = {row["reason"] for row in by_costs.report["float32_nodes"]}
    assert "measured: steps are faster with this region in float32" in reasons


def test_regions_that_cannot_be_timed_leave_what_was_measured(
    conversion, slow_node, tmp_path, monkeypatch
):
    def refuses(self, nodes, seconds):
        raise GraphmpError("GMP024", "the step does not run")

    monkeypatch.setattr(halving.Halving, "_asked", refuses)
    found = tune.tune(conversion, CPU, TuneOptions(seconds=3.0), tmp_path / "x.costs")
    assert found.note == "GMP024: the step does not run" and found.costs.faster
