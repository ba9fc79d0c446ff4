"""The timing of lowered training steps, and the page on what a GPU showed."""

import collections
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.bench.kernels.names import uses_tensor_cores
from tests.support.lowered import needs_jax, net, written
from tests.support.places import ROOT, TOOLS


@pytest.mark.unit
def test_time_says_that_jax_is_missing(tool, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jax", None)
    assert tool("time_hlo").main(["a.hlo"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert (
        len(error) == 1
        and error[0].startswith("time_hlo: ")
        and error[0].endswith("pip install 'graphmp[hlo]', on a GPU jax[cuda13]")
    )


@pytest.mark.unit
def test_the_table_of_timed_files(tool):
    row = dict(
        file="a/net.float32.hlo",
        column="float32",
        ms=2.0,
        ms_quartiles=[1.9, 2.2],
        times=1.0,
        gflops=50.0,
        of_rate=0.5,
        memory=3 * 2**20,
        losses=[0.25],
    )
    row.update(
        products={"f32 dot": 3},
        kernels=[
            dict(name="s884", milliseconds=0.75, tensor_core=True),
            dict(name="add", milliseconds=0.25, tensor_core=False),
        ],
    )
    lines = (
        tool("hlo.shown")
        .shown(
            {
                "device": "d",
                "platform": "gpu",
                "jax": "1",
                "matmul_gflops": {"float32": 100.0},
                "files": [row],
            }
        )
        .splitlines()
    )
    assert lines[0] == "d (gpu), JAX 1; large matmuls, GFLOP/s: float32 100"
    assert lines[3].split() == [
        "net.float32.hlo",
        "float32",
        "2.000",
        "1.900..2.200",
        "1.00",
        "50.0",
        "50.0%",
        "3",
        "MiB",
        "0.25",
    ]
    assert lines[5:] == [
        "net.float32.hlo: 3 f32 dot",
        "  1.000 ms of kernels a step, 75.0% on Tensor Cores",
        "  *    0.750 ms  s884",
        "       0.250 ms  add",
    ]


def timed(*arguments):
    """Run time_hlo.py in another process, without TensorFlow."""
    command = [
        sys.executable,
        str(TOOLS / "time_hlo.py"),
        "--platform",
        "cpu",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True)


@needs_jax
def test_files_are_timed_beside_each_other(tool, tmp_path):
    source = str(written(tmp_path, net(steady=True)))
    np.savez(
        tmp_path / "data.npz", image=np.full([4, 8, 8, 4], 0.5, np.float32), label=np.full([4], 3)
    )
    paths = [tmp_path / name for name in ("a.hlo", "b.hlo", "c.hlo")]
    for path, flags in zip(
        paths, ([], ["--as", "tf32"], ["--as", "converted", "--compute_dtype", "bfloat16"])
    ):
        assert (
            tool("export_hlo").main(
                [source, "--data", str(tmp_path / "data.npz"), "-o", str(path), *flags]
            )
            == 0
        )
    done = timed(*paths, "--rounds", 1, "--steps", 1, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["column"] for row in found["files"]] == ["float32", "tf32", "bfloat16"]
    assert set(found["matmul_gflops"]) == {"float32", "tf32", "bfloat16"}
    for row, expected in zip(found["files"], [third_loss(source)] * 3):
        assert row["losses"] == [
            pytest.approx(expected, rel=1e-5 if row["column"] != "bfloat16" else 2e-2)
        ]
        assert row["ms"] > 0 and row["gflops"] > 0 and row["of_rate"] > 0 and row["products"]
    assert found["files"][0]["times"] == 1


@pytest.mark.unit
def test_programs_without_a_baseline(tool, capsys):
    with pytest.raises(SystemExit) as stopped:
        tool("time_hlo").parse(["--programs", "a.float32.hlo", "a.own.hlo", "b.own.hlo"])
    assert stopped.value.code == 2
    assert "found b.own.hlo, and no b.float32.hlo to compare it with" in capsys.readouterr().err


@needs_jax
def test_programs_are_timed_one_after_another(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = str(written(tmp_path, net(steady=True)))
    programs = ["--as", "float32", "--as", "own"]
    assert tool("export_hlo").main([source, "--batch_size", "4", *programs]) == 0
    for file in list(tmp_path.glob("net.*.*")):
        (tmp_path / file.name.replace("net", "another")).write_bytes(file.read_bytes())
    (tmp_path / "net.broken.hlo").write_bytes(b"no program")
    (tmp_path / "net.broken.json").write_bytes((tmp_path / "net.own.json").read_bytes())
    flags = ["--programs", "--rounds", 2, "--steps", 1, "--jobs", 2, "--losses", 3, "--json"]
    done = timed(*flags, *sorted(tmp_path.glob("*.hlo")))
    assert done.returncode == 0 and "net.broken.hlo: JAX" in done.stderr
    results = tmp_path / "results.jsonl"
    results.write_text(done.stdout)
    found = tool("gpu_table").programs([json.loads(line) for line in done.stdout.splitlines()])
    assert {name: sorted(rows) for name, rows in found.items()} == {
        name: ["float32", "own"] for name in ("another", "net")
    }
    for row in (row for rows in found.values() for row in rows.values()):
        assert len(row["rounds"]) == 2 and len(row["trained"]) == 3 and row["memory"] > 0
    trained = [[row["trained"] for row in rows.values()] for rows in found.values()]
    np.testing.assert_allclose(trained[0], trained[1])
    np.testing.assert_allclose(trained[0][0], trained[0][1], rtol=1e-2)


def timed_row(program, column, rounds, kernels, loss):
    return dict(
        file="%s.%s.hlo" % (program, column),
        ms=rounds[0],
        rounds=rounds,
        kernels=[
            dict(name=name, milliseconds=milliseconds, tensor_core=name.startswith("nvjet"))
            for name, milliseconds in kernels
        ],
        memory={"float16": 50}.get(column, 100),
        trained=[[2.0], [loss]],
    )


@pytest.mark.unit
def test_the_table_of_a_gpu(tool, tmp_path, capsys):
    line = dict(device="H", jax="1", xla_flags="--fast", matmul_gflops={"float16": 700e3})
    line["files"] = [
        timed_row("net", "float32", [8.0, 8.0, 8.0], [("sgemm", 8.0)], 1.0),
        timed_row("net", "tf32", [4.0, 4.0, 4.0], [("nvjet_s", 3.0)], 1.0),
        timed_row("net", "float16", [2.0, 2.0, 2.0], [("nvjet_h", 1.5), ("add", 0.5)], 1.01),
        timed_row("net", "own", [3.0, 3.0, 3.0], [("nvjet_h", 1.5)], 1.0),
    ]
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps(line) + "\n")
    assert tool("gpu_table").main([str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == (
        "| net | 8.00 ms | 2.00 [2.00, 2.00] | 4.00 [4.00, 4.00] | - | 2.67 [2.67, 2.67] |"
        " 2.00 [2.00, 2.00] | 75% | 0.50 | 1.0e-02 | 0.0e+00 |"
    )
    assert lines[6] == "| speed-up of 1 | 4.000 | 2.000 | 1.500 |"
    assert lines[8:] == [
        "- device: H.", "- JAX: 1.", "- with `--fast`: net.", "- large matmuls, TFLOP/s: float16 700.",
    ]  # fmt: skip
    assert tool("gpu_table").main([str(results), "--kernels", "net"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "net, float32:",
        "  8.000 ms of kernels a step, 0.0% on Tensor Cores",
        "       8.000 ms  sgemm",
    ]
    assert lines[6:10] == [
        "net, float16:",
        "  2.000 ms of kernels a step, 75.0% on Tensor Cores",
        "  *    1.500 ms  nvjet_h",
        "       0.500 ms  add",
    ]
    with pytest.raises(SystemExit):
        tool("gpu_table").main([str(results), "--kernels", "nut"])
    assert "found nut, accepted: net" in capsys.readouterr().err


@pytest.mark.unit
def test_the_page_on_gpus_has_what_was_measured(tool, capsys):
    results, page = ROOT / "examples" / "gpu.jsonl", (ROOT / "docs" / "gpu.md").read_text("utf-8")
    assert tool("gpu_table").main([str(results)]) == 0
    assert "<!-- gpu -->\n%s<!-- end gpu -->" % capsys.readouterr().out in page
    assert tool("gpu_table").main([str(results), "--kernels", "resnet50", "transformer"]) == 0
    assert "```\n%s\n```\n<!-- end gpu kernels" % capsys.readouterr().out.rstrip() in page


@pytest.mark.unit
def test_kernels_seen_on_a_gpu_are_told_apart(tool):
    """All matmuls and convolutions of half precision ran on Tensor Cores, none of float32."""
    lines = (ROOT / "examples" / "gpu.jsonl").read_text("utf-8").splitlines()
    multiplies = re.compile(r"gemm|conv\d|fprop|dgrad|wgrad|nvjet")
    cut = 160  # letters of a name in the file
    others = re.compile(r"init_device_workspace|short kernels")
    seen = collections.Counter()
    for row in (row for line in lines for row in json.loads(line)["files"]):
        for kernel in (k for k in row["kernels"] if not others.search(k["name"])):
            on = kernel["tensor_core"]
            if len(kernel["name"]) < cut:
                assert uses_tensor_cores(kernel["name"], row["column"] != "float32") == on
            if row["column"] in ("float32", "float16", "bfloat16"):
                wanted = row["column"] != "float32" and bool(multiplies.search(kernel["name"]))
                assert on == wanted, (row["file"], kernel["name"])
                seen[row["column"], on] += 1
    assert min(seen["float32", False], seen["float16", True], seen["bfloat16", True]) > 20


@pytest.mark.unit
@needs_jax
def test_short_kernels_are_summed_up(tool):
    kernel = tool("hlo.seen").Kernel
    found = [kernel("a", 10.0, True), kernel("b", 0.01, True), kernel("c", 0.02, False)]
    assert tool("hlo.seen").summed_up([*found, kernel("d", 0.01, False)]) == [
        kernel("a", 10.0, True),
        kernel("2 short kernels", 0.03, False),
        kernel("1 short kernels", 0.01, True),
    ]


@needs_jax
def test_programs_for_the_plugins_of_gpus_have_no_ops_of_mhlo(tool, tmp_path):
    with tf.Graph().as_default():
        weight = tf.get_variable("weight", [4, 4])
        kept = tf.get_variable("kept", [4, 4], trainable=False)
        loss = tf.reduce_sum(tf.erf(tf.matmul(tf.ones([4, 4]), weight)))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        kept.assign(weight)
        path = written(tmp_path, tf.train.export_meta_graph())
    out = tmp_path / "out.hlo"
    assert tool("export_hlo").main([str(path), "-o", str(out)]) == 0
    text = tool("hlo.portable").stablehlo(out.read_bytes()).decode("utf-8")
    assert "stablehlo.dot" in text and "chlo.erf" in text
    assert "mhlo.erf" not in text and "mhlo.copy" not in text
    done = timed(out, "--rounds", 1, "--steps", 1)
    assert done.returncode == 0, done.stderr


def third_loss(source):
    """The loss of the third step: time_hlo.py compiles with one, warms up with one, times one."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(source)
        session.run(tf.global_variables_initializer())
        feeds = {"image:0": np.full([4, 8, 8, 4], 0.5), "label:0": np.full([4], 3)}
        train = graph.get_collection(tf.GraphKeys.TRAIN_OP)
        return [session.run(["loss:0", train], feeds)[0] for _ in range(3)][-1]


@pytest.mark.unit
@needs_jax
def test_products_of_a_program_for_a_gpu(tool):
    """XLA's lines for calls of cuBLAS and cuDNN, shortened by hand."""
    text = """
  %cublas-gemm.1 = (f16[64,512]{1,0}, s8[4194304]{0}) custom-call(%a, %b), \
custom_call_target="__cublas$gemm", backend_config={"gemm":1}
  %cudnn-conv.2 = (f16[8,8,8,16]{3,2,1,0}, u8[0]{0}) custom-call(%c, %d), window={size=3x3}, \
custom_call_target="__cudnn$convForward"
  %dot.3 = f32[8,8]{1,0} dot(%e, %f), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %sort.4 = f32[8]{0} custom-call(%g), custom_call_target="__cub$DeviceRadixSort"
  %add.5 = f32[8,8]{1,0} add(%dot.3, %e)"""
    assert tool("hlo.seen").products(text) == {
        "f16 __cublas$gemm": 1,
        "f16 __cudnn$convForward": 1,
        "f32 dot": 1,
    }


@needs_jax
@pytest.mark.parametrize(
    "sidecar, words", [(None, "cannot be read"), ("{}", "found no schema graphmp.hlo/1")]
)
def test_files_that_are_none(tmp_path, sidecar, words):
    (tmp_path / "a.hlo").write_bytes(b"no program")
    if sidecar is not None:
        (tmp_path / "a.json").write_text(sidecar)
    done = timed(tmp_path / "a.hlo")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("time_hlo: %s: " % (tmp_path / "a.json")) and words in done.stderr
