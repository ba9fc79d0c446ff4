"""`graphmp bench` from its command line: text, JSON and picture, batch sizes, memory limits, and errors of one line."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.cli import bench as command_module
from graphmp.cli import terminal
from graphmp.cli.main import run_command
from graphmp.graph.messages import serialize
from graphmp.performance import kernels
from graphmp.performance.device import Device
from graphmp.runtime.bench import device, run
from graphmp.runtime.bench.session import TrainingSession
from tests.support.benches import Local
from tests.support.classifiers import classifier
from tests.support.commands import graphmp as command
from tests.support.commands import refused
from tests.support.places import environment

TF1 = tf.__version__ < "2"
SHORT = ["--steps=2", "--rounds=2", "--warmup=1"]
SCRIPT = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
if tf.__version__ > "2":
    tf.disable_v2_behavior()

def build_training_model(x, y):
    loss = tf.reduce_mean(tf.square(tf.matmul(x, tf.get_variable("w", [8, 1])) - y))
    return loss, tf.train.GradientDescentOptimizer(float(sys.argv[2])).minimize(loss)

x, y = tf.placeholder(tf.float32, [None, 8], "x"), tf.placeholder(tf.float32, [None, 1], "y")
loss, train = build_training_model(x, y)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {x: np.ones((2, 8)), y: np.ones((2, 1))})
"""
FUNCTIONS = """
import numpy as np

def batch(step):
    return {"x": np.ones((6, 8)), "labels": np.zeros(6, np.int64)}

def incomplete():
    return {"x": np.ones((6, 8))}
"""


@pytest.fixture(scope="module")
def files():
    """What is in the folder, made once."""
    with tf.Graph().as_default():
        tf.matmul(tf.placeholder(tf.float32, [2, 4], "x"), tf.get_variable("w", [4, 3]))
        untrained = tf.train.export_meta_graph()
    return {"train.meta": classifier(), "untrained.meta": untrained}


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """The working folder, with graphs and data in it, on a CPU with AMX; what a process would do is done here."""
    for name, meta_graph in files.items():
        (tmp_path / name).write_bytes(serialize(meta_graph))
    np.savez(str(tmp_path / "data.npz"), x=np.ones((20, 8), np.float32), labels=np.zeros(20, np.int32))
    np.savez(str(tmp_path / "labels.npz"), x=np.ones((20, 8), np.float32), labels=np.full(20, 1000, np.int32))
    (tmp_path / "feeds.py").write_text(FUNCTIONS)
    (tmp_path / "model.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "Process", Local)
    monkeypatch.setattr(terminal, "_AT_ONCE", math.inf)  # no progress, however busy the machine is
    monkeypatch.setattr(device, "cpu_flags", lambda: frozenset(("avx512_bf16", "amx_bf16")))
    return tmp_path


def unsaid(err):
    """What is on stderr beside progress."""
    return re.sub(r"(?m)^\[\d+:\d\d\] .*; (about \d+:\d\d left|nearly done|.* longer than planned.*|time left not known yet)\n", "", err)


def benched(capfd, *arguments, status=0):
    """The JSON that is printed."""
    found, out, err = command(capfd, "bench", *arguments, *SHORT, "--json")
    assert found == status and err == "", err
    return json.loads(out)


# -- what is printed -----------------------------------------------------------------------------------------------------


def test_text(folder, capfd):
    status, out, err = command(capfd, "bench", "train.meta", "--batch_sizes=8,4", *SHORT)
    assert (status, err) == (0, "") and "\x1b" not in out
    lines = out.splitlines()
    dtype = "float16" if TF1 else "bfloat16"
    assert lines[0] == "train.meta   %s against float32" % dtype and lines[-1].startswith("next         ")
    assert "device       CPU with AMX_BF16 and AVX512_BF16; TensorFlow %s" % tf.__version__ in lines
    assert "data         random, seed 0" in lines
    assert "steps        2 rounds of 2 steps a graph, in turn; 1 warm-up step before, not counted" in lines
    assert any(line.startswith("sums         %s matmuls add up in float" % dtype) for line in lines)
    start = lines.index("times")
    titles = ["batch", "graph", "ms/step", "quartiles", "range", "speed-up", "95%", "examples/s", "peak", "tensors", "peak", "RSS"]
    assert lines[start + 1].split() == titles
    rows = [line.split() for line in lines[start + 2 : start + (6 if TF1 else 8)]]
    assert [row[0] for row in rows] == ["4"] * (len(rows) // 2) + ["8"] * (len(rows) // 2)
    assert [row[1] for row in rows] == (["float32", "graphmp"] if TF1 else ["float32", "graphmp", "TensorFlow's"]) * 2
    if TF1:
        assert any(line.startswith("note         float16 is emulated on a CPU") for line in lines)
        assert any(line.startswith("  TensorFlow's float16: not timed: TensorFlow 1.15.5 has its pass inside a session") for line in lines)


def test_json(folder, capfd):
    value = benched(capfd, "train.meta", "--batch_sizes=4,8", "--seed=3")
    assert (value["schema"], value["source"], value["data"], value["batch_sizes"]) == ("graphmp.bench/1", "train.meta", "random, seed 3", [4, 8])
    assert [each["status"] for each in value["runs"]] == ["timed"] * (4 if TF1 else 6)
    assert [np.shape(each["rounds"]) for each in value["runs"]] == [(2, 2)] * len(value["runs"])
    first = value["runs"][0]
    assert first["milliseconds"]["median"] == pytest.approx(np.median(first["rounds"]), rel=1e-3)
    assert first["milliseconds"]["least"] <= first["milliseconds"]["first_quartile"] <= first["milliseconds"]["most"]
    assert first["speedup"] is None and value["runs"][1]["speedup"]["low"] < value["runs"][1]["speedup"]["value"]
    assert value["variants"]["tensorflow"].startswith("TensorFlow 1.15.5 has its pass" if TF1 else "")
    assert set(value["environment"]) == {"TF_FP16_MATMUL_USE_FP32_COMPUTE", "TF_FP16_CONV_USE_FP32_COMPUTE"}


def test_a_python_file_with_its_own_command_line(folder, capfd):
    status, out, err = command(capfd, "bench", "model.py", *SHORT, "--batch_sizes=4", "--json", "--", "--rate", "0.25")
    assert (status, err) == (0, "")
    value = json.loads(out)
    assert value["source"].endswith("model.py") and [each["status"] for each in value["runs"]][:2] == ["timed"] * 2


@pytest.mark.parametrize("data, sizes", [("data.npz", [4, 8]), ("feeds.py:batch", [6])])
def test_data(folder, capfd, data, sizes):
    value = benched(capfd, "train.meta", "--batch_sizes=4,8", "--data=" + data)
    assert value["data"] == data and value["batch_sizes"] == sizes and value["input"]["seconds_a_batch"] > 0
    note = "the batch size is 6, by the graph or its data: --batch_sizes=4,8 changes nothing"
    assert (note in value["notes"]) == (len(sizes) == 1)


def test_the_default_dtype_is_what_is_fast(folder, capfd, monkeypatch):
    assert benched(capfd, "train.meta", "--batch_sizes=4")["compute_dtype"] == ("float16" if TF1 else "bfloat16")
    given = benched(capfd, "train.meta", "--batch_sizes=4", "--compute_dtype=float16", "--loss_scale=128")
    assert given["compute_dtype"] == "float16" and given["flags"]["loss_scale"] == 128
    assert given["notes"][0].startswith("float16 is emulated on a CPU")
    monkeypatch.setattr(device, "cpu_flags", lambda: frozenset(("avx2",)))
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
    step = TrainingSession.step

    def limited(self, batch):
        if len(batch["x:0"]) > 4 and not any(node.startswith("graphmp/") or node.endswith("float16") for node in self.view.nodes):
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[8,16]")
        step(self, batch)

    monkeypatch.setattr(TrainingSession, "step", limited)
    status, out, _ = command(capfd, "bench", "train.meta", "--batch_sizes=4,8", "--memory_limit=1.5GB", *SHORT)
    lines = out.splitlines()
    assert status == 0 and "memory       a graph's process may take 1.5 GB" in lines
    assert "batch size 8: float32 runs out of memory, the converted graph runs" in lines
    assert "  float32 at batch size 8: out of memory: OOM when allocating tensor with shape[8,16]" in lines
    assert any(line.split()[:5] == ["8", "float32", "out", "of", "memory"] for line in lines)
    assert lines[-1].startswith("next         graphmp convert train.meta --compute_dtype=")


def test_a_conversion_that_never_runs(folder, capfd, monkeypatch):
    step = TrainingSession.step

    def broken(self, batch):
        if any(node.startswith("graphmp/loss_scale") for node in self.view.nodes):
            raise tf.errors.InvalidArgumentError(None, None, "no such kernel")
        step(self, batch)

    monkeypatch.setattr(TrainingSession, "step", broken)
    status, out, _ = command(capfd, "bench", "train.meta", "--compute_dtype=float16", *SHORT)
    assert status == 1 and "failed: no such kernel" in out
    assert out.splitlines()[-1] == "next         graphmp audit train.meta --random_data"


def test_likely_causes_are_listed(folder, capfd, monkeypatch):
    monkeypatch.setattr(TrainingSession, "timed", lambda self, batches, count: [0.01] * count)
    status, out, _ = command(capfd, "bench", "train.meta", "--batch_sizes=4", "--compute_dtype=float16", *SHORT)
    value = benched(capfd, "train.meta", "--batch_sizes=4", "--compute_dtype=float16")
    assert status == 0 and value["causes"]["4"] and all(cause["share"] > 0 and cause["text"] for cause in value["causes"]["4"])
    assert value["causes"]["4"] == sorted(value["causes"]["4"], key=lambda cause: -cause["share"])
    assert "less than 1.2 times as fast at batch size 4; likely causes, by their share of the step" in out


@pytest.mark.parametrize("name, start", [("bench.png", b"\x89PNG"), ("bench.svg", b"<?xml")])
def test_a_picture(folder, capfd, name, start):
    pytest.importorskip("matplotlib")
    status, out, err = command(capfd, "bench", "train.meta", "--batch_sizes=4", "--plot=" + name, *SHORT)
    assert (status, err) == (0, "") and "wrote        %s" % name in out.splitlines()
    assert (folder / name).read_bytes().startswith(start)


# -- trouble -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "GMP001: "),
        (["gone.meta"], "GMP003: gone.meta"),
        (["untrained.meta"], "GMP023: untrained.meta: no training step was found"),
        (["train.meta", "--batch_sizes="], "GMP002: --batch_sizes=: accepted are numbers above zero with commas between, such as 32,64"),
        (["train.meta", "--batch_sizes=8,0"], "GMP002: --batch_sizes=8,0: "),
        (["train.meta", "--batch_sizes=8,many"], "GMP002: --batch_sizes=8,many: "),
        (["train.meta", "--batch_sizes=-4"], "GMP002: --batch_sizes=-4: "),
        (["train.meta", "--steps=0"], "GMP002: --steps=0: accepted are numbers above zero"),
        (["train.meta", "--rounds=-1"], "GMP002: --rounds=-1: accepted are numbers above zero"),
        (["train.meta", "--seconds=0"], "GMP002: --seconds=0: accepted are numbers above zero"),
        (["train.meta", "--seconds=inf"], "GMP002: --seconds=inf: accepted are numbers above zero"),
        (["train.meta", "--warmup=none"], "GMP001: "),
        (["train.meta", "--memory_limit=2"], "GMP002: --memory_limit=2: accepted is a number above zero with a unit, such as 1500MB or 2GB"),
        (["train.meta", "--memory_limit=0GB"], "GMP002: --memory_limit=0GB: "),
        (["train.meta", "--compute_dtype=float8"], "GMP002: --compute_dtype=float8"),
        (["train.meta", "--data=gone.npz"], "GMP003: --data=gone.npz: cannot be read"),
        (["train.meta", "--data=feeds.py"], "GMP002: --data=feeds.py: accepted are"),
        (["train.meta", "--data=feeds.py:incomplete"], "GMP002: --data=feeds.py:incomplete: nothing for labels"),
        (["train.meta", "--data=labels.npz"], "GMP024: train.meta: the step does not run: "),
        (["train.meta", "--plot=bench.jpg"], "GMP002: --plot=bench.jpg: accepted are names that end in .png or .svg"),
        (["train.meta", "--plot=file.txt/bench.png"], "GMP004: file.txt: cannot be written"),
        (["train.meta", "--verify_tensor_cores"], "GMP020: --verify_tensor_cores: found CPU with AMX_BF16 and AVX512_BF16; accepted is a GPU"),
    ],
)  # fmt: skip
def test_trouble_is_one_line(folder, capfd, arguments, message):
    pytest.importorskip("matplotlib")
    (folder / "file.txt").write_text("")
    status, err = refused(capfd, "bench", *arguments)
    assert status == 2 and err.startswith("graphmp: error " + message), err
    assert "Graph execution error" not in err


def test_a_missing_matplotlib_is_named_before_any_work(folder, capfd, monkeypatch):
    monkeypatch.setattr(command_module.importlib.util, "find_spec", lambda name: None)
    status, err = refused(capfd, "bench", "train.meta", "--plot=bench.png")
    assert status == 2 and "--plot=bench.png: matplotlib, which draws it, is not installed: pip install 'graphmp[plot]'" in err


# -- Tensor Cores --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["train.meta", "converted.meta"])
def test_tensor_cores_are_looked_for_in_the_converted_graph(folder, capfd, monkeypatch, source):
    if source == "converted.meta":
        assert command(capfd, "convert", "train.meta", "-o", ".")[0] == 0
    seen = []
    monkeypatch.setattr(device, "find", lambda: Device("V100", (7, 0)))
    verify = kernels.verify
    monkeypatch.setattr(kernels, "verify", lambda *arguments: seen.append(arguments) or verify(*arguments))
    arguments = [source, "--batch_sizes=4", "--verify_tensor_cores", "--compute_dtype=float16"]
    status, out, err = command(capfd, "bench", *arguments)
    assert (status, err) == (kernels.NOTHING_SEEN, "")  # it ran on the CPU
    assert out.splitlines()[0].startswith("tensor cores: the profile shows no GPU kernel of 6") and out.splitlines()[-1].startswith("next ")
    ((graph_def, run_metadata),) = seen
    assert any(node.name.startswith("graphmp/loss_scale") for node in graph_def.node) and run_metadata.step_stats.dev_stats
    value = json.loads(command(capfd, "bench", *arguments, "--json")[1])
    assert value["schema"] == "graphmp.tensor_cores/1" and len(value["rows"]) == 6 and value["exit_status"] == kernels.NOTHING_SEEN


@pytest.mark.parametrize("status, following", [(0, "graphmp bench train.meta"), (1, "change what is listed, then run this again")])
def test_the_verdict_is_the_exit_status(folder, capfd, monkeypatch, status, following):
    monkeypatch.setattr(device, "find", lambda: Device("V100", (7, 0)))
    monkeypatch.setattr(kernels, "verify", lambda *_: kernels.Verdict([], status))
    found, out, _ = command(capfd, "bench", "train.meta", "--verify_tensor_cores")
    assert found == status and out.splitlines()[-1] == "next         " + following


# -- a process of its own ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_but_the_result_with_processes_of_their_own(folder):
    arguments = [sys.executable, "-m", "graphmp", "bench", "train.meta", "--batch_sizes=4", *SHORT, "--json"]
    done = subprocess.run(arguments, env=environment(), capture_output=True, check=False)
    assert (done.returncode, unsaid(done.stderr.decode())) == (0, "")
    value = json.loads(done.stdout.decode())
    assert [each["status"] for each in value["runs"]] == ["timed"] * (2 if TF1 else 3)
    assert all(each["peak_bytes"] > 0 and each["peak_rss_bytes"] > 10**8 and each["kernels"]["products"] > 0 for each in value["runs"])


def test_help_has_examples(capfd):
    with pytest.raises(SystemExit) as ended:
        run_command(["graphmp", "bench", "--help"])
    assert ended.value.code == 0
    out = capfd.readouterr().out
    assert "graphmp bench model.ckpt.meta --batch_sizes 32,64,128" in out and "--keep_float32" in out and "Exit status" in out
