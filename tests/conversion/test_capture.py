"""Python files converted by the command.

Captured at the first step that trains, whatever the door.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.conversion.conversion import FILES
from graphmp.gate.reading import read_graph
from graphmp.graph.state.variables import variables
from graphmp.report import facts
from tests.support import scripts
from tests.support.commands import graphmp, refused
from tests.support.forks import builds_in_forks


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_talks_script_unmodified(folder, built_in_forks, capfd):
    (folder / "talk.py").write_text(scripts.TALK)
    status, out, err = graphmp(capfd, "convert", "talk.py", "--loss_scale=128", "--clip_norm=5")
    assert (status, err) == (0, "")
    assert sorted(os.listdir(str(folder))) == ["talk.py", "talk_graphmp"] and sorted(
        os.listdir("talk_graphmp")
    ) == sorted(FILES)
    original, converted = (
        read_graph(folder / "talk_graphmp" / name) for name in ("original.meta", "converted.meta")
    )
    assert facts.coverage(original.graph_def) == {"tensor_core_ops": 9, "converted_ops": 0}
    assert facts.coverage(converted.graph_def) == {"tensor_core_ops": 9, "converted_ops": 9}
    assert [(v.name, v.dtype, v.shape) for v in variables(converted.graph_def)] == [
        (v.name, v.dtype, v.shape) for v in variables(original.graph_def)
    ]
    assert {v.dtype for v in variables(converted.graph_def)} == {tf.float32.as_datatype_enum}
    nodes = {n.name: n for n in converted.graph_def.node}
    assert (
        nodes["Placeholder"].attr["dtype"].type
        == nodes["sparse_softmax_cross_entropy_loss/value"].attr["T"].type
        == tf.float32.as_datatype_enum
    )
    for words in (
        "recipe",
        "9 of 9 matmuls and convolutions",
        "14 of 14 float32",
        "1 seed, 6 gradients, 6 updates; scale fixed 128; clip global norm 5",
    ):
        assert words in out
    with tf.Graph().as_default():  # no node has gained an attribute that its op does not know
        tf.train.import_meta_graph(converted)
    report = json.loads((folder / "talk_graphmp" / "report.json").read_text())
    assert (
        report["schema"] == "graphmp.report/1"
        and report["losses"][0]["gradient_scope"] == "gradients"
    )
    assert all(change["reason"] for change in report["changes"])


def test_files_of_autograph_are_deleted(folder, capfd, monkeypatch):
    function = "@tf.function\ndef twice(x):\n  return x * 2 if tf.size(x) > 0 else x\n"
    text = scripts.script("run").replace("def ", function + "def ", 1)
    (folder / "net.py").write_text(
        text.replace("tf.layers.dense(x,", "tf.layers.dense(twice(x),", 1)
    )
    (folder / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "temporary"))
    monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
    status, _, err = graphmp(capfd, "convert", "net.py", "--engine=recipe")
    assert (status, err) == (0, "")
    assert read_graph(folder / "net_graphmp" / "original.meta").graph_def.library.function
    assert not [name for name in os.listdir("temporary") if name.endswith(".py")]


def test_flags_file_and_json_repeat_the_conversion(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(scripts.script("run"))
    assert (
        graphmp(
            capfd,
            "convert",
            "net.py",
            "-o",
            "first",
            "--loss_scale=64",
            "--keep_float32=dense_1",
            "--clip_norm=2",
        )[0]
        == 0
    )
    status, out, _ = graphmp(
        capfd, "convert", "--flagfile=first/flags.txt", "net.py", "-o", "second", "--json"
    )
    first, second = (
        json.loads((folder / name / "report.json").read_text()) for name in ("first", "second")
    )
    first.pop("seconds"), second.pop("seconds")
    assert status == 0 and json.loads(out)["flags"] == second["flags"] and first == second
    assert (folder / "first" / "converted.meta").read_bytes() == (
        folder / "second" / "converted.meta"
    ).read_bytes()
    assert first["coverage"] == {"tensor_core_ops": 6, "converted_ops": 3}


@pytest.mark.parametrize("door", sorted(scripts.DOORS))
def test_doors(folder, forks, tmp_path_factory, door):
    """One build: it ends at the training step and nothing of the script runs after."""
    (folder / "net.py").write_text(scripts.script(door))
    config = dict(
        engine="auto",
        compute_dtype="float16",
        loss_scale="dynamic",
        keep_float32=[],
        force_compute=[],
    )
    spec = dict(
        path="net.py",
        function="build_training_model",
        arguments=[],
        inputs=[],
        args=[],
        config=config,
        legacy_imports=False,
        served=False,
        strict=False,
        converted=False,
        plain=False,
        output=".",
    )
    (folder / "spec.json").write_text(json.dumps(spec))
    said = io.BytesIO()
    builds_in_forks(forks, tmp_path_factory.mktemp("build")).run(["spec.json"], said)
    assert (folder / "graph.meta").exists(), said.getvalue().decode()
    assert not (folder / "left_behind").exists()
    names = {n.name for n in read_graph(folder / "graph.meta").graph_def.node}
    assert {"made_after_the_session", "dense/kernel", "Adam"} <= names
    assert json.loads((folder / "result.json").read_text())["calls"] == 1


def test_runs_as_under_python(folder, capfd):
    """In a process of its own; other tests build in forks.

    Plain Python needs no TensorFlow for the facts.
    """
    (folder / "src").mkdir()
    (folder / "src" / "curious.py").write_text(scripts.CURIOUS)
    (folder / "src" / "helper_beside_it.py").write_text("")
    stub = folder / "stub" / "tensorflow" / "compat"
    stub.mkdir(parents=True)
    (stub / "v1.py").write_text(
        "import sys\nfrom unittest import mock\nsys.modules[__name__] ="
        " mock.MagicMock(__version__='1.15')\n"
    )
    command = [sys.executable, os.path.join("src", "curious.py"), "12"]
    plain = subprocess.run(
        command, capture_output=True, env=dict(os.environ, PYTHONPATH=str(folder / "stub"))
    )
    assert plain.returncode == 0, plain.stderr.decode()
    expected = json.loads((folder / "facts.json").read_text())
    status, out, err = graphmp(
        capfd, "convert", os.path.join("src", "curious.py:Model.build"), "-o", "out", "--", "12"
    )
    assert status == 0, err
    assert json.loads((folder / "facts.json").read_text()) == expected
    assert "1 of 1 matmuls" in out and "GMP105" in out


def test_a_function_of_a_file_that_leaves_tensorflow_eager(folder, built_in_forks, capfd):
    """It imports tensorflow.compat.v1, and disables nothing of TensorFlow 2."""
    lines = scripts.NET.split("def leave")[0].splitlines()
    kept = [line for line in lines if "__version__" not in line and "disable_v2" not in line]
    (folder / "eager.py").write_text("\n".join(kept) + "\n")
    inputs = ["--input", "x=float32[?,12]", "--input", "y=float32[?,1]"]
    status, out, err = graphmp(capfd, "convert", "eager.py", "-o", "out_eager", *inputs)
    assert status == 0, err
    assert "6 of 6 matmuls" in out
    graph_def = read_graph(folder / "out_eager" / "converted.meta").graph_def
    assert facts.coverage(graph_def) == {"tensor_core_ops": 6, "converted_ops": 6}


def test_a_function_that_nobody_calls(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(
        scripts.NET.split("def leave")[0]
        .replace("(x, y):", "(x, y, units=1):")
        .replace(", 1)\n", ", units)\n")
    )
    status, line = refused(capfd, "convert", "net.py")
    assert (
        status == 2
        and "GMP007" in line
        and "needs x, y: pass --input x=" in line
        and not (folder / "net_graphmp").exists()
    )
    assert (
        "no argument z; it takes x, y, units"
        in refused(capfd, "convert", "net.py", "--input", "z=float32[2]")[1]
    )
    assert (
        "accepted is name=dtype[dimensions]"
        in refused(capfd, "convert", "net.py", "--input", "x=float99[2]")[1]
    )
    assert (
        graphmp(
            capfd,
            "convert",
            "net.py",
            "--input",
            "x=float32[?,12]",
            "--input",
            "y=float32[?,1]",
            "--arg",
            "units=1",
        )[0]
        == 0
    )
    converted = read_graph(folder / "net_graphmp" / "converted.meta")
    shapes = {
        n.name: [d.size for d in n.attr["shape"].shape.dim]
        for n in converted.graph_def.node
        if n.op == "Placeholder"
    }
    assert shapes == {"x": [-1, 12], "y": [-1, 1]}
    assert facts.coverage(converted.graph_def) == {"tensor_core_ops": 6, "converted_ops": 6}


TF1 = "import tensorflow.compat.v1 as tf\ntf.disable_eager_execution()\n"
BAD = {
    "missing file": (None, ["convert", "nowhere.py"], 2, "GMP003.*nowhere.py: no such file"),
    "syntax error": ("def f(:\n  pass", ["convert", "bad.py"], 2, r"GMP005.*bad.py:1: "),
    "no such function": ("def one(): pass\ndef two(): pass", ["convert", "bad.py:three"], 2, "GMP006.*no build function three; functions found: one, two"),
    "bad loss scale": ("def build_training_model(): pass", ["convert", "bad.py", "--loss_scale=much"], 2, "GMP002.*--loss_scale=much: accepted are dynamic, none or a positive number"),
    "unwritable folder": ("def build_training_model(): pass", ["convert", "bad.py", "-o", "/proc/graphmp"], 2, "GMP004.*/proc/graphmp: cannot be written"),
    "function that raises": (TF1 + "def build_training_model():\n    raise KeyError('lost')\nbuild_training_model()", ["convert", "bad.py"], 1, r"GMP013.*bad.py:4: KeyError: 'lost'"),
    "compiled code that raises": ("exec(compile('1 / 0', '_elsewhere.pyx', 'exec'))", ["convert", "bad.py"], 1, r"GMP013.*bad.py:1: ZeroDivisionError"),
    "a file that leaves its folder": ("import os\nos.chdir('/')\n1 / 0", ["convert", "bad.py"], 1, r"GMP013.*bad.py:3: ZeroDivisionError"),
    "early exit": ("import sys\ndef build_training_model(): pass\nsys.exit(3)", ["convert", "bad.py"], 1, "GMP013.*exits with 3 before it trains"),
    "process that dies": ("import os\ndef build_training_model(): pass\nos._exit(9)", ["convert", "bad.py"], 1, "GMP013.*exited with status 9 before it trained"),
    "no graph": (TF1 + "def build_training_model(): pass\nbuild_training_model()", ["convert", "bad.py"], 1, "GMP017.*built no graph"),
    "no graph file": (None, ["convert", "model.meta"], 2, "GMP003.*model.meta: cannot be read: No such file"),
    "the recipe without a function": ("x = 1", ["convert", "bad.py", "--engine=recipe"], 2, "GMP006.*no build function build_training_model; functions found: none"),
    "strict without a function": ("x = 1", ["convert", "bad.py", "--engine_strict"], 2, "GMP006.*no build function build_training_model"),
    "unknown flag": (None, ["convert", "bad.py", "--lossscale=2"], 2, "GMP001.*--lossscale=2"),
    "bad policy": ("def build_training_model(): pass", ["convert", "bad.py", "--op_policy=bad.py"], 2, "GMP010.*bad.py:1: found"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_input_is_one_line_and_nothing_is_written(folder, built_in_forks, capfd, name):
    text, arguments, expected, pattern = BAD[name]
    if text is not None:
        (folder / "bad.py").write_text(text)
    before = sorted(os.listdir(str(folder)))
    status, line = refused(capfd, *arguments)
    assert status == expected
    assert re.search(pattern, line), line
    assert sorted(os.listdir(str(folder))) == before


def test_what_the_recipe_cannot_serve(folder, built_in_forks, capfd):
    """The line of the model is named, exit 1, and an older conversion stays."""
    (folder / "net.py").write_text(
        scripts.script("run").replace(
            "tf.layers.dense(x, 16", "tf.layers.dense(x * tf.constant(2.0), 16"
        )
    )
    (folder / "net_graphmp").mkdir()
    (folder / "net_graphmp" / "report.json").write_text("old")
    status, line = refused(capfd, "convert", "net.py", "--engine=recipe")
    assert (
        status == 1
        and "GMP012" in line
        and "net.py:10: `h = tf.layers.dense(tf.layers.dense(x * tf.constant(2.0), 16" in line
    )
    assert "dtype=x.dtype" in line
    assert (folder / "net_graphmp" / "report.json").read_text() == "old" and os.listdir(
        "net_graphmp"
    ) == ["report.json"]


def test_inputs_that_are_no_arguments(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(
        scripts.script("run").replace(
            "def build_training_model(x, y):", "def build_training_model(*unused):"
        )
    )
    status, line = refused(capfd, "convert", "net.py", "--engine_strict")
    assert (
        status == 1
        and "GMP015" in line
        and "none of the 6 matmuls and convolutions, dense/MatMul the first, would run in float16"
        in line
    )


@pytest.mark.parametrize(
    "flags", [["--loss_scale=128", "--clip_norm=5"], []], ids=["fixed", "dynamic"]
)
def test_ten_steps_of_original_and_converted(folder, built_in_forks, capfd, flags):
    """From the same initial values on the same batches.

    Then an overflow, and a good batch again.
    """
    (folder / "steady.py").write_text(scripts.STEADY)
    status, _, err = graphmp(capfd, "convert", "steady.py", "-o", "out", *flags)
    assert status == 0, err
    original, start = trained("out/original.meta", {}, 10)
    converted, _ = trained("out/converted.meta", start, 10, overflow=not flags)
    np.testing.assert_allclose(converted, original, rtol=0.01)


def trained(path, start, steps, overflow=False):
    """Losses of some steps on made-up batches, and the initial values."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as sess:
        tf.train.import_meta_graph(path)
        images, labels = (
            op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"
        )
        rng = np.random.RandomState(1)
        batch = {images: rng.rand(32, *images.shape.as_list()[1:]), labels: rng.randint(0, 10, 32)}
        sess.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            if variable.op.name in start:
                variable.load(start[variable.op.name], sess)
        values = {v.op.name: sess.run(v) for v in tf.global_variables()}
        loss, train_op = (
            tf.get_collection(tf.GraphKeys.LOSSES)[0],
            tf.get_collection(tf.GraphKeys.TRAIN_OP)[0],
        )
        losses = [sess.run([loss, train_op], batch)[0] for _ in range(steps)]
        if overflow:
            check_overflow(
                sess,
                lambda factor: sess.run(
                    [loss, train_op], {images: batch[images] * factor, labels: batch[labels]}
                ),
            )
        return losses, values


def check_overflow(sess, step):
    """A batch of 1e6 changes nothing but the scale's own state; the next good one trains."""
    names = [v.op.name for v in tf.global_variables()]
    before = dict(zip(names, sess.run(tf.global_variables())))
    step(1e6)
    after = dict(zip(names, sess.run(tf.global_variables())))
    changed = [n for n in names if before[n].tobytes() != after[n].tobytes()]
    assert sorted(changed) == [
        "graphmp/loss_scale/good_steps",
        "graphmp/loss_scale/scale",
        "graphmp/loss_scale/skipped_steps",
    ]
    assert after["graphmp/loss_scale/scale"] == before["graphmp/loss_scale/scale"] / 2
    step(1)
    last = dict(zip(names, sess.run(tf.global_variables())))
    assert last["graphmp/loss_scale/good_steps"] == 1
    assert all(before[n].tobytes() != last[n].tobytes() for n in names if n.endswith("kernel"))


def test_a_function_that_trains_inside_itself(folder, built_in_forks, capfd):
    text = (
        "%sdef main():\n    loss, train = build_training_model(x, y)\n    sess = tf.Session()\n   "
        " sess.run(tf.global_variables_initializer())\n    sess.run(train, {x: X, y:"
        " Y})\n\nmain()\n"
    )
    (folder / "net.py").write_text(text % scripts.NET.split("early = ")[0])
    status, line = refused(capfd, "convert", "net.py:main", "--engine=recipe")
    assert (
        status == 2
        and "GMP019" in line
        and "net.py: main trains inside itself; name a function that builds the graph and returns, of build_training_model"
        in line
    )
    assert graphmp(capfd, "convert", "net.py")[0] == 0


def test_a_function_that_has_no_part_in_the_matmuls(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(
        scripts.script("run")
        .replace("    late =", "    other(loss)\n    late =")
        .replace("def leave", "def other(loss):\n    return loss * 2\n\ndef leave")
    )
    status, line = refused(capfd, "convert", "net.py:other", "--engine=recipe")
    assert status == 1 and "GMP015" in line and "other makes none of the graph's 6 matmuls" in line


def test_ops_that_are_pinned_to_a_gpu_are_captured_without_one(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(
        scripts.script("run").replace(
            "    loss, train = build", "    with tf.device('/gpu:0'):\n        loss, train = build"
        )
    )
    assert graphmp(capfd, "convert", "net.py")[0] == 0
    converted = read_graph(folder / "net_graphmp" / "converted.meta")
    assert {n.device for n in converted.graph_def.node if n.op == "MatMul"} == {"/device:GPU:0"}


@pytest.mark.unit
def test_tensorflow_without_legacy_keras(folder, capfd, monkeypatch):
    if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 16):
        pytest.skip("Keras 2 is built in")
    (folder / "net.py").write_text(scripts.script("run"))
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    status, line = refused(capfd, "convert", "net.py")
    assert (
        status == 2
        and "GMP009" in line
        and "set TF_USE_LEGACY_KERAS=1 or leave it unset" in line
        and os.listdir(".") == ["net.py"]
    )


def test_a_contrib_symbol_without_successor(folder, built_in_forks, capfd):
    if tf.__version__ < "2":
        pytest.skip("tf.contrib is there")
    (folder / "old.py").write_text(
        "import tensorflow as tf\ndef build_training_model():\n    pass\nloss ="
        " tf.contrib.kafka.KafkaDataset\n"
    )
    status, line = refused(capfd, "convert", "old.py", "--legacy_imports=strict")
    assert (
        status == 1
        and "GMP018" in line
        and "old.py:4: tf.contrib.kafka" in line
        and "the last with tf.contrib is 1.15.5" in line
    )
