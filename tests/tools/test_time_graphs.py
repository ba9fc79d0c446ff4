"""`tools/time_graphs.py`, on a CPU, and its results in docs/gpu.md."""

from __future__ import annotations

import json
import re

import pytest
import tensorflow.compat.v1 as tf

from graphmp.bench.processes import resident
from graphmp.cli.main import run_command
from graphmp.environment import FAST_BATCH_NORM
from tests.support.places import ROOT


@pytest.fixture(scope="module", params=["references", "resources"])
def graph(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "net.meta"
    resources = request.param == "resources"
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=resources):
        x = tf.placeholder(tf.float32, [None, 8], "x")
        labels = tf.placeholder(tf.int32, [None], "labels")
        hidden = tf.layers.dense(x, 8, tf.nn.relu)
        logits = tf.layers.dense(hidden, 4)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(losses))
        meta_graph = tf.train.export_meta_graph(str(path))
    assert ("VarHandleOp" in {node.op for node in meta_graph.graph_def.node}) == resources
    return path


def test_each_variant_is_timed_from_the_same_values(tool, graph, tmp_path, monkeypatch, capsys):
    timing, output = tool("time_graphs"), tmp_path / "rows.jsonl"
    monkeypatch.setattr(resident, "LARGE", 1)  # the batch of x is a variable, labels are fed
    monkeypatch.setattr(tool("parts.timed_turns"), "_TURN", 0.0)
    flags = ["-o", str(output), "--batch_size=4", "--seconds=0", "--losses=3"]
    flags += ["--loss_scale=8", "--lock", str(tmp_path / "lock")]
    assert timing.main([str(graph), *flags]) == 0
    (row,) = map(json.loads, output.read_text().splitlines())
    variants = ["float32", "float16", *([] if tf.__version__ < "2" else ["bfloat16", "own"])]
    assert set(variants) <= set(row["rounds"]) and row["program"] == "net"
    assert all(len(found) == 3 and min(found) > 0 for found in row["rounds"].values())
    for name in variants:
        first, *_, last = row["losses"][name]
        assert len(row["losses"][name]) == 3 and last < first
        assert row["losses"][name] == pytest.approx(row["losses"]["float32"], rel=2e-2)
    assert row["kernels"]["float16"]["casts"] > 0 == row["kernels"]["float32"]["casts"]
    said = capsys.readouterr()
    assert "float16: first step " in said.err
    assert "| net | " in said.out and "- TensorFlow %s." % tf.__version__ in said.out
    assert "slow batch norm" not in said.out
    assert timing.main(["-o", str(output)]) == 0  # the tables alone
    assert capsys.readouterr().out == said.out


def test_one_variant_alone(tool, graph, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool("parts.timed_turns"), "_TURN", 0.0)
    output = tmp_path / "rows.jsonl"
    flags = ["-o", str(output), "--batch_size=4", "--seconds=0", "--losses=1", "--only", "float16"]
    assert tool("time_graphs").main([str(graph), *flags]) == 0
    assert set(json.loads(output.read_text())["rounds"]) == {"float16"}
    assert re.search(r"\| net \| [^|]+ \| - \| - \|", capsys.readouterr().out)


def test_slow_batch_normalization_is_said(tool, graph, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool("parts.timed_turns"), "_TURN", 0.0)
    monkeypatch.setenv(FAST_BATCH_NORM, "0")
    flags = ["-o", str(tmp_path / "rows"), "--batch_size=4", "--seconds=0", "--losses=1"]
    assert tool("time_graphs").main([str(graph), *flags, "--only", "float16"]) == 0
    said = capsys.readouterr().out
    assert "| net, slow batch norm |" in said and "%s=0" % FAST_BATCH_NORM in said


def test_costs_are_those_of_the_graph_by_name(tool, graph, tmp_path, monkeypatch):
    monkeypatch.setattr(tool("parts.timed_turns"), "_TURN", 0.0)
    costs, flags = tmp_path / "net.costs", ["--seconds=1", "--compute_dtype=float16"]
    assert run_command(["graphmp", "tune", str(graph), "-o", str(costs), *flags]) == 0
    output = tmp_path / "rows.jsonl"
    flags = ["-o", str(output), "--batch_size=4", "--seconds=0", "--losses=2"]
    flags += ["--only", "float32", "tuned", "--costs", str(tmp_path)]
    assert tool("time_graphs").main([str(graph), *flags]) == 0
    (row,) = map(json.loads, output.read_text().splitlines())
    assert set(row["rounds"]) == {"float32", "tuned"}
    assert row["losses"]["tuned"] == pytest.approx(row["losses"]["float32"], rel=2e-2)


def test_a_graph_that_cannot_be_timed_is_said(tool, tmp_path, capsys):
    with tf.Graph().as_default():
        tf.placeholder(tf.float32, [2], "x")
        tf.train.export_meta_graph(str(tmp_path / "none.meta"))
    output = tmp_path / "rows.jsonl"
    output.write_text("")
    assert tool("time_graphs").main([str(tmp_path / "none.meta"), "-o", str(output)]) == 1
    assert "no training step was found" in capsys.readouterr().err and not output.read_text()


def test_nothing_to_time_and_nothing_to_print(tool, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        tool("time_graphs").main(["-o", str(tmp_path / "none.jsonl")])
    assert ended.value.code == 2 and "found no FILE.meta" in capsys.readouterr().err


def test_the_page_on_gpus_has_the_steps_that_were_timed(tool, capsys):
    page = (ROOT / "docs" / "gpu.md").read_text("utf-8")
    assert tool("time_graphs").main(["-o", str(ROOT / "examples" / "gpu_steps.jsonl")]) == 0
    assert "<!-- gpu steps -->\n%s<!-- end gpu steps -->" % capsys.readouterr().out in page
