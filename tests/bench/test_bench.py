"""Benches.

Statistics of timings, shares of a step, causes, memory, batches, and graphs that take turns.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.bench import graphs, run
from graphmp.bench.bench import FAILED, FLOAT32, GRAPHMP, OUT_OF_MEMORY, TENSORFLOW, TIMED
from graphmp.bench.device import limits
from graphmp.bench.options import BenchOptions
from graphmp.bench.processes.child import Child
from graphmp.bench.processes.timed_session import TimedSession
from graphmp.doctor.devices import Device
from graphmp.errors import GraphmpError
from graphmp.tuning import files
from tests.support.benched import CPU, TF1
from tests.support.benches import Local
from tests.support.classifiers import classifier, half_already
from tests.support.costed import of_nodes


@pytest.fixture
def local(monkeypatch):
    monkeypatch.setattr(run, "Process", Local)


def benched(conversion, device=CPU, **options):
    return run.bench(
        conversion,
        device,
        BenchOptions(**dict(dict(steps=2, warmup=1, rounds=2, batch_sizes=(4, 8)), **options)),
        {},
    )


def test_a_bench(conversion, local):
    told = []
    options = BenchOptions(steps=2, warmup=1, rounds=2, batch_sizes=(4, 8))
    found = run.bench(conversion, CPU, options, {}, lambda what, ends: told.append((what, ends)))
    names = [FLOAT32, GRAPHMP] if TF1 else [FLOAT32, GRAPHMP, TENSORFLOW]
    assert [(each.variant, each.batch_size) for each in found.runs] == [
        (name, size) for size in (4, 8) for name in names
    ]
    assert all(
        each.status == TIMED and [len(steps) for steps in each.rounds] == [2, 2]
        for each in found.runs
    )
    assert all(
        each.memory.peak > 0
        and each.memory.rss > 0
        and 0 < each.shares.products < each.shares.total
        for each in found.runs
    )
    assert found.run(GRAPHMP, 4).shares.casts > found.run(FLOAT32, 4).shares.casts
    whats = list(dict.fromkeys(what for what, _ in told))
    assert whats[:3] == [
        "TensorFlow's own rewrite",
        "making batches",
        "float32 alone at batch size 4",
    ]
    assert whats[-2:] == ["timing at batch size 4", "timing at batch size 8"]
    assert all(
        (ends is None) != what.startswith("timing") for what, ends in told
    )  # how long rounds take is known when they begin
    assert (found.steps, found.rounds, found.warmup, found.seconds) == (2, 2, 1, 0)
    assert (
        found.compute_dtype == "float16"
        and found.accumulation["matmul"]
        and found.notes == limits(CPU, "float16")
    )


def test_the_first_step_on_a_gpu_may_take_long(conversion, local, monkeypatch):
    """There cuDNN tries the algorithms of each convolution: only steps after it are limited."""
    ask, asked = Local.ask, []

    def watched(self, order, *arguments, limit=None):
        asked.append((order, arguments[0] if arguments else "", limit))
        return ask(self, order, *arguments, limit=limit)

    monkeypatch.setattr(Local, "ask", watched)
    options = BenchOptions(seconds=2, batch_sizes=(4,))
    run.bench(conversion, Device("GPU", (9, 0)), options, {})
    fits = [place for place, (order, _, _) in enumerate(asked) if order == "fit"]
    assert len(fits) >= 2 and all(asked[place][2] >= 30 for place in fits)
    assert [asked[place - 1] for place in fits] == [
        ("open", asked[place][1], None) for place in fits
    ]


def test_a_batch_size_without_memory_is_a_row(conversion, local, monkeypatch):
    step = TimedSession.step

    def limited(self, batch):
        if len(batch["x:0"]) > 4 and "graphmp/loss_scale/update/step" not in self.view.nodes:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        step(self, batch)

    monkeypatch.setattr(TimedSession, "step", limited)
    found = benched(conversion)
    assert found.only_converted == [8]
    assert [found.run(FLOAT32, size).status for size in (4, 8)] == [TIMED, OUT_OF_MEMORY]
    assert (
        found.run(FLOAT32, 8).message == "OOM when allocating tensor"
        and found.speedup(found.run(GRAPHMP, 8)) is None
    )


def test_sessions_take_turns_alone_where_there_is_no_memory_for_all(conversion, local, monkeypatch):
    opened = Child.open

    def alone(self, *arguments):
        if self._open:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        opened(self, *arguments)

    monkeypatch.setattr(Child, "open", alone)
    found = benched(conversion, batch_sizes=(4,))
    assert all(
        each.apart and each.status == TIMED and [len(steps) for steps in each.rounds] == [2, 2]
        for each in found.runs
    )


def test_a_conversion_that_fails_is_a_row(conversion, local, monkeypatch):
    step = TimedSession.step

    def broken(self, batch):
        if "graphmp/loss_scale/update/step" in self.view.nodes:
            raise tf.errors.InvalidArgumentError(None, None, "no such kernel")
        step(self, batch)

    monkeypatch.setattr(TimedSession, "step", broken)
    assert [
        (each.variant, each.message) for each in benched(conversion).runs if each.status == FAILED
    ] == [(GRAPHMP, "no such kernel")] * 2


def test_an_original_that_does_not_run_is_an_error(conversion, local, monkeypatch):
    def broken(self, batch):
        raise tf.errors.InvalidArgumentError(None, None, "bad labels")

    monkeypatch.setattr(TimedSession, "step", broken)
    with pytest.raises(
        GraphmpError, match="GMP024: <MetaGraphDef>: the step does not run: bad labels"
    ):
        benched(conversion)


def test_batch_sizes_that_change_nothing_are_noted(local):
    found = benched(graphmp.convert(classifier(batch=5), compute_dtype="float32"))
    assert found.batch_sizes == [5] and found.accumulation == {}
    assert (
        found.notes[-1]
        == "the batch size is 5, by the graph or its data: --batch_sizes=4,8 changes nothing"
    )


@pytest.mark.unit
def test_a_graph_without_training_is_an_error(local):
    with tf.Graph().as_default():
        tf.matmul(tf.placeholder(tf.float32, [2, 4]), tf.get_variable("w", [4, 4]))
        found = graphmp.convert(tf.train.export_meta_graph())
    with pytest.raises(GraphmpError, match="GMP023"):
        benched(found)


@pytest.mark.unit
def test_costs_of_a_graph_that_is_half_already_decide_nothing(tmp_path):
    path = tmp_path / "x.costs"
    path.write_bytes(files.dumps(of_nodes(half_already(), {}, 1.0)))
    tuned = graphs.by_costs(graphmp.convert(half_already()), str(path))
    assert run._about_costs(tuned)[0].startswith("%s decides nothing" % path)
