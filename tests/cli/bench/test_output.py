"""`graphmp bench` as text, JSON and picture."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.bench import device
from graphmp.bench.processes.timed_session import TimedSession
from tests.support.bench_command import SHORT, TF1
from tests.support.commands import graphmp as command


def benched(capfd, *arguments, status=0):
    """The JSON that is printed."""
    found, out, err = command(capfd, "bench", *arguments, *SHORT, "--json")
    assert found == status and err == "", err
    return json.loads(out)


def test_text(folder, capfd):
    status, out, err = command(capfd, "bench", "train.meta", "--batch_sizes=8,4", *SHORT)
    assert (status, err) == (0, "") and "\x1b" not in out
    lines = out.splitlines()
    dtype = "float16" if TF1 else "bfloat16"
    assert lines[0] == "train.meta   %s against float32" % dtype and lines[-1].startswith(
        "next         "
    )
    assert "device       CPU with AMX_BF16 and AVX512_BF16; TensorFlow %s" % tf.__version__ in lines
    assert "data         random, seed 0" in lines
    assert (
        "steps        2 rounds of 2 steps a graph, in turn; 1 warm-up step before, not counted"
        in lines
    )
    assert any(line.startswith("sums         %s matmuls add up in float" % dtype) for line in lines)
    start = lines.index("times")
    titles = [
        "batch",
        "graph",
        "ms/step",
        "quartiles",
        "range",
        "speed-up",
        "95%",
        "examples/s",
        "peak",
        "tensors",
        "peak",
        "RSS",
    ]
    assert lines[start + 1].split() == titles
    rows = [line.split() for line in lines[start + 2 : start + (6 if TF1 else 8)]]
    assert [row[0] for row in rows] == ["4"] * (len(rows) // 2) + ["8"] * (len(rows) // 2)
    assert [row[1] for row in rows] == (
        ["float32", "graphmp"] if TF1 else ["float32", "graphmp", "TensorFlow's"]
    ) * 2
    if TF1:
        assert any(line.startswith("note         float16 is emulated on a CPU") for line in lines)
        assert any(
            line.startswith(
                "  TensorFlow's float16: not timed: TensorFlow 1.15.5 has its pass inside a session"
            )
            for line in lines
        )


def test_json(folder, capfd):
    value = benched(capfd, "train.meta", "--batch_sizes=4,8", "--seed=3")
    assert (value["schema"], value["source"], value["data"], value["batch_sizes"]) == (
        "graphmp.bench/1",
        "train.meta",
        "random, seed 3",
        [4, 8],
    )
    assert [each["status"] for each in value["runs"]] == ["timed"] * (4 if TF1 else 6)
    assert [np.shape(each["rounds"]) for each in value["runs"]] == [(2, 2)] * len(value["runs"])
    first = value["runs"][0]
    assert first["milliseconds"]["median"] == pytest.approx(np.median(first["rounds"]), rel=1e-3)
    assert (
        first["milliseconds"]["least"]
        <= first["milliseconds"]["first_quartile"]
        <= first["milliseconds"]["most"]
    )
    assert (
        first["speedup"] is None
        and value["runs"][1]["speedup"]["low"] < value["runs"][1]["speedup"]["value"]
    )
    assert value["variants"]["tensorflow"].startswith(
        "TensorFlow 1.15.5 has its pass" if TF1 else ""
    )
    assert set(value["environment"]) == {
        "TF_FP16_MATMUL_USE_FP32_COMPUTE",
        "TF_FP16_CONV_USE_FP32_COMPUTE",
    }


def test_a_python_file_with_its_own_command_line(folder, built_in_forks, capfd):
    status, out, err = command(
        capfd, "bench", "model.py", *SHORT, "--batch_sizes=4", "--json", "--", "--rate", "0.25"
    )
    assert (status, err) == (0, "")
    value = json.loads(out)
    assert (
        value["source"].endswith("model.py")
        and [each["status"] for each in value["runs"]][:2] == ["timed"] * 2
    )


@pytest.mark.parametrize("data, sizes", [("data.npz", [4, 8]), ("feeds.py:batch", [6])])
def test_data(folder, capfd, data, sizes):
    value = benched(capfd, "train.meta", "--batch_sizes=4,8", "--data=" + data)
    assert (
        value["data"] == data
        and value["batch_sizes"] == sizes
        and value["input"]["seconds_a_batch"] > 0
    )
    note = "the batch size is 6, by the graph or its data: --batch_sizes=4,8 changes nothing"
    assert (note in value["notes"]) == (len(sizes) == 1)


def test_the_default_dtype_is_what_is_fast(folder, capfd, monkeypatch):
    assert benched(capfd, "train.meta", "--batch_sizes=4")["compute_dtype"] == (
        "float16" if TF1 else "bfloat16"
    )
    given = benched(
        capfd, "train.meta", "--batch_sizes=4", "--compute_dtype=float16", "--loss_scale=128"
    )
    assert given["compute_dtype"] == "float16" and given["flags"]["loss_scale"] == 128
    assert given["notes"][0].startswith("float16 is emulated on a CPU")
    monkeypatch.setattr(device, "bfloat16_instructions", list)
    assert benched(capfd, "train.meta", "--batch_sizes=4")["compute_dtype"] == "float16"


def test_what_float16_adds_up_in_is_said_with_the_environment(folder, capfd, monkeypatch):
    monkeypatch.setenv("TF_FP16_MATMUL_USE_FP32_COMPUTE", "0")
    value = benched(capfd, "train.meta", "--batch_sizes=4", "--compute_dtype=float16")
    assert value["environment"] == {
        "TF_FP16_MATMUL_USE_FP32_COMPUTE": "0",
        "TF_FP16_CONV_USE_FP32_COMPUTE": os.environ.get("TF_FP16_CONV_USE_FP32_COMPUTE"),
    }
    assert set(value["accumulation"].values()) <= {"float16", "float32", None}


def test_batch_sizes_without_memory(folder, capfd, monkeypatch):
    step = TimedSession.step

    def limited(self, batch):
        if len(batch["x:0"]) > 4 and not any(
            node.startswith("graphmp/") or node.endswith("float16") for node in self.view.nodes
        ):
            raise tf.errors.ResourceExhaustedError(
                None, None, "OOM when allocating tensor with shape[8,16]"
            )
        step(self, batch)

    monkeypatch.setattr(TimedSession, "step", limited)
    status, out, _ = command(
        capfd, "bench", "train.meta", "--batch_sizes=4,8", "--memory_limit=1.5GB", *SHORT
    )
    lines = out.splitlines()
    assert status == 0 and "memory       a graph's process may take 1.5 GB" in lines
    assert "batch size 8: float32 runs out of memory, the converted graph runs" in lines
    assert (
        "  float32 at batch size 8: out of memory: OOM when allocating tensor with shape[8,16]"
        in lines
    )
    assert any(line.split()[:5] == ["8", "float32", "out", "of", "memory"] for line in lines)
    assert lines[-1].startswith("next         graphmp convert train.meta --compute_dtype=")


def test_a_conversion_that_never_runs(folder, capfd, monkeypatch):
    step = TimedSession.step

    def broken(self, batch):
        if any(node.startswith("graphmp/loss_scale") for node in self.view.nodes):
            raise tf.errors.InvalidArgumentError(None, None, "no such kernel")
        step(self, batch)

    monkeypatch.setattr(TimedSession, "step", broken)
    status, out, _ = command(capfd, "bench", "train.meta", "--compute_dtype=float16", *SHORT)
    assert status == 1 and "failed: no such kernel" in out
    assert out.splitlines()[-1] == "next         graphmp audit train.meta --random_data"


def test_likely_causes_are_listed(folder, capfd, monkeypatch):
    monkeypatch.setattr(TimedSession, "timed", lambda self, batches, count, *_: [0.01] * count)
    status, out, _ = command(
        capfd, "bench", "train.meta", "--batch_sizes=4", "--compute_dtype=float16", *SHORT
    )
    value = benched(capfd, "train.meta", "--batch_sizes=4", "--compute_dtype=float16")
    assert (
        status == 0
        and value["causes"]["4"]
        and all(cause["share"] > 0 and cause["text"] for cause in value["causes"]["4"])
    )
    assert value["causes"]["4"] == sorted(value["causes"]["4"], key=lambda cause: -cause["share"])
    assert (
        "less than 1.2 times as fast at batch size 4; likely causes, by their share of the step"
        in out
    )


@pytest.mark.parametrize("name, start", [("bench.png", b"\x89PNG"), ("bench.svg", b"<?xml")])
def test_a_picture(folder, capfd, name, start):
    pytest.importorskip("matplotlib")
    status, out, err = command(
        capfd, "bench", "train.meta", "--batch_sizes=4", "--plot=" + name, *SHORT
    )
    assert (status, err) == (0, "") and "wrote        %s" % name in out.splitlines()
    assert (folder / name).read_bytes().startswith(start)
