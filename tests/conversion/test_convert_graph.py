"""Graphs that are already built, converted by the command and in Python.

The choice of the engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp as package
from graphmp.conversion import python_file
from graphmp.conversion.conversion import FILES
from graphmp.conversion.export import exported
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize
from graphmp.graph.state.variables import variables
from graphmp.report import facts
from graphmp.verify import FAILED
from tests.support import scripts
from tests.support.commands import graphmp, refused
from tests.support.control_flow import control_flow
from tests.support.corpus import recorded
from tests.support.places import ROOT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small_net():
    """A net with a batch normalisation and a mask, its loss, and an optimizer, in the default
    graph.
    """
    x, y = tf.placeholder(tf.float32, (None, 8), "x"), tf.placeholder(tf.int64, (None,), "y")
    h = tf.layers.dense(x, 16, activation=tf.nn.relu, name="one")
    h = tf.layers.dense(h, 16, activation=tf.nn.tanh, name="two")
    logits = tf.layers.dense(h, 4, name="three")
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    tf.add_to_collection("predictions", tf.nn.softmax(logits, name="probabilities"))
    return tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, tf.train.get_or_create_global_step())


@pytest.fixture
def net(graph):
    """A MetaGraphDef of the small net, with a saver."""
    small_net()
    return tf.train.export_meta_graph(graph=graph, saver_def=tf.train.Saver().as_saver_def())


def losses(meta_graph, steps=4):
    """Losses of some training steps from fixed weights on fixed batches."""
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.train.import_meta_graph(meta_graph)
        sess.run(tf.global_variables_initializer())
        rng = np.random.RandomState(0)
        for variable in tf.global_variables():
            if variable.dtype.base_dtype == tf.float32:
                variable.load(rng.randn(*variable.shape.as_list()) * 0.3, sess)
        batch = {"x:0": rng.randn(16, 8), "y:0": rng.randint(0, 4, 16)}
        loss = tf.get_collection(tf.GraphKeys.LOSSES)[0]
        return [
            sess.run([loss, graph.get_operation_by_name("Momentum")], batch)[0]
            for _ in range(steps)
        ]


FORMS = {
    "MetaGraphDef": lambda m: m,
    "GraphDef": lambda m: m.graph_def,
    "path": lambda m: "net.meta",
    "binary GraphDef": lambda m: "net.pb",
    "text MetaGraphDef": lambda m: "net.pbtxt",
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_of_a_graph(folder, net, form):
    (folder / "net.meta").write_bytes(serialize(net))
    (folder / "net.pb").write_bytes(net.graph_def.SerializeToString())
    (folder / "net.pbtxt").write_text(str(net))
    before = serialize(net)
    result = package.convert(FORMS[form](net), loss_scale=None)
    assert result.report["engine"] == "rewrite"
    assert result.report["coverage"] == {"tensor_core_ops": 9, "converted_ops": 9}
    assert serialize(net) == before
    if "GraphDef" not in form or "Meta" in form:
        np.testing.assert_allclose(losses(result.meta_graph), losses(net), rtol=0.01)


@pytest.mark.unit
def test_a_live_graph(graph):
    small_net()
    result = package.convert(graph, loss_scale="none")
    assert (
        result.report["source"] == "<tf.Graph>" and result.report["coverage"]["converted_ops"] == 9
    )


@pytest.mark.unit
def test_a_train_op_in_a_branch_is_no_entry_of_a_collection():
    """TensorFlow lists it in the graph's collection, and imports no graph with that entry."""
    with tf.Graph().as_default() as graph, control_flow(functions=True):
        x = tf.placeholder(tf.float32, [4, 8])
        w = tf.get_variable("w", [8, 8], use_resource=True)

        def train():
            loss = tf.nn.l2_loss(tf.matmul(x, w))
            with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.1).minimize(loss)]):
                return tf.identity(loss)

        tf.cond(tf.placeholder(tf.bool, []), train, lambda: tf.constant(0.0), name="branch")
        assert graph.get_collection("train_op")
        before, after = exported(graph), package.convert(graph)
        assert "train_op" not in before.collection_def
        with tf.Graph().as_default() as other:
            tf.add_to_collection("train_op", tf.no_op("here"))
        assert exported(other).collection_def["train_op"].node_list.value == ["here"]
    assert after.report["losses"][0]["gated"]


@pytest.mark.unit
def test_the_command(folder, net, capfd):
    (folder / "net.meta").write_bytes(serialize(net))
    status, out, err = graphmp(capfd, "convert", "net.meta", "--loss_scale=none")
    assert (status, err) == (0, "")
    assert sorted(os.listdir("net_graphmp")) == sorted(FILES)
    assert (
        "engine       rewrite (no source)" in out
        and "9 of 9 matmuls" in out
        and "12 of 12 float32" in out
    )
    assert "gradients: 1 seed, 6 gradients, 6 updates; scale none" in out
    report = json.loads((folder / "net_graphmp" / "report.json").read_text())
    assert report["graph"]["tensorflow_version"] == tf.__version__
    assert all(row["reason"] for row in report["changes"])
    assert report["kept_float32"]["deny"] > 0
    converted = read_graph(folder / "net_graphmp" / "converted.meta")
    assert {v.name: v.dtype for v in variables(converted.graph_def)} == {
        v.name: v.dtype for v in variables(net.graph_def)
    }
    softmax = next(n for n in converted.graph_def.node if n.name == "probabilities")
    assert softmax.attr["T"].type == tf.float32.as_datatype_enum


@pytest.mark.unit
def test_the_flags_repeat_the_conversion(folder, net, capfd):
    (folder / "net.meta").write_bytes(serialize(net))
    assert (
        graphmp(
            capfd, "convert", "net.meta", "--loss_scale=none", "--keep_float32=two/", "-o", "one"
        )[0]
        == 0
    )
    assert graphmp(capfd, "convert", "--flagfile=one/flags.txt", "net.meta", "-o", "two")[0] == 0
    assert (folder / "one" / "converted.meta").read_bytes() == (
        folder / "two" / "converted.meta"
    ).read_bytes()
    report = json.loads((folder / "one" / "report.json").read_text())
    kept = [row for row in report["warnings"] if row["code"] == "GMP102"]
    assert {row["node"] for row in kept} == {
        "two/MatMul",
        "gradients/two/MatMul_grad/MatMul",
        "gradients/two/MatMul_grad/MatMul_1",
    }
    assert all("user rule: --keep_float32=two/" in row["message"] for row in kept)


@pytest.mark.unit
def test_check(folder, net, capfd):
    (folder / "net.meta").write_bytes(serialize(net))
    flags = ["convert", "net.meta", "--loss_scale=none", "-o", "out"]
    status, out, _ = graphmp(capfd, *flags, "--check")
    assert (
        status == 1
        and "stale" in out
        and "graphmp convert net.meta -o out --loss_scale=none\n" in out
        and not os.path.exists("out")
    )
    assert graphmp(capfd, *flags)[0] == 0
    status, out, _ = graphmp(capfd, *flags, "--check")
    assert status == 0 and "out is what net.meta gives today" in out
    (folder / "out" / "converted.meta").write_bytes(b"other")
    status, out, _ = graphmp(capfd, *flags, "--check", "--json")
    assert status == 1 and json.loads(out)["stale"] == ["converted.meta"]


@pytest.mark.unit
def test_converting_again(folder, net, capfd):
    (folder / "net.meta").write_bytes(serialize(net))
    assert graphmp(capfd, "convert", "net.meta", "-o", "out", "--loss_scale=none")[0] == 0
    status, out, _ = graphmp(
        capfd, "convert", "out/converted.meta", "-o", "again", "--loss_scale=none"
    )
    assert status == 0 and "converted with the same flags: nothing to change" in out
    assert (folder / "again" / "converted.meta").read_bytes() == (
        folder / "out" / "converted.meta"
    ).read_bytes()
    status, line = refused(
        capfd, "convert", "out/converted.meta", "-o", "other", "--compute_dtype=bfloat16"
    )
    assert (
        status == 2
        and "GMP022" in line
        and "--compute_dtype=float16" in line
        and "convert the original again" in line
    )


def test_a_recipes_result_is_recognised(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(scripts.script("run"))
    assert graphmp(capfd, "convert", "net.py", "-o", "out")[0] == 0
    status, line = refused(
        capfd, "convert", "out/converted.meta", "-o", "again", "--loss_scale=none"
    )
    assert status == 2 and "GMP022" in line


@pytest.mark.unit
@pytest.mark.parametrize(
    "flags, code",
    [
        (["--loss_scale=-1"], "GMP002"),
        (["--loss=nowhere"], "GMP002"),
        (["--train_op=nowhere"], "GMP002"),
        (["--gradient_scope=nowhere"], "GMP002"),
        (["--engine=recipe"], "GMP002"),
        (["--fetch=nowhere"], "GMP002"),
    ],
)
def test_what_a_graph_is_refused_for(folder, net, capfd, flags, code):
    (folder / "net.meta").write_bytes(serialize(net))
    status, line = refused(capfd, "convert", "net.meta", *flags)
    assert status == 2 and code in line and os.listdir(".") == ["net.meta"]


@pytest.mark.unit
def test_the_default_scale_follows_the_compute_dtype(net):
    found = {
        dtype: package.convert(net, compute_dtype=dtype).report
        for dtype in ("float16", "bfloat16", "float32")
    }
    assert {dtype: report["loss_scale"]["kind"] for dtype, report in found.items()} == {
        "float16": "dynamic",
        "bfloat16": "none",
        "float32": "dynamic",
    }
    assert [report["warnings"] for report in found.values()] == [[], [], []]
    assert [loss["scale"] for loss in found["bfloat16"]["losses"]] == [""]


def test_a_flag_for_built_graphs_takes_the_rewrite(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(scripts.script("run"))
    assert graphmp(capfd, "convert", "net.py", "-o", "out", "--gradient_scope=gradients")[0] == 0
    report = json.loads((folder / "out" / "report.json").read_text())
    assert (
        report["engine"] == "rewrite"
        and report["engine_reason"] == "--gradient_scope is for built graphs"
    )
    status, line = refused(
        capfd, "convert", "net.py", "-o", "out", "--gradient_scope=gradients", "--engine=recipe"
    )
    assert status == 2 and "GMP002" in line


@pytest.mark.unit
def test_what_is_no_graph():
    with pytest.raises(GraphmpError, match="found list; accepted is a MetaGraphDef"):
        package.convert([1])


FALLS_BACK = {
    "a float32 constant": (
        lambda s: s.replace("tf.layers.dense(x, 16", "tf.layers.dense(x * tf.constant(2.0), 16"),
        "net.py",
        "GMP012",
    ),
    "inputs that are no arguments": (
        lambda s: s.replace(
            "def build_training_model(x, y):", "def build_training_model(*unused):"
        ),
        "net.py",
        "GMP015",
    ),
    "no function": (
        lambda s: s.replace("build_training_model", "make"),
        "net.py",
        "no build function",
    ),
}


@pytest.mark.parametrize("name", sorted(FALLS_BACK))
def test_the_rewrite_where_the_recipe_does_not_fit(folder, built_in_forks, capfd, name):
    change, source, reason = FALLS_BACK[name]
    (folder / "net.py").write_text(change(scripts.script("run")))
    status, out, err = graphmp(capfd, "convert", source, "--compute_dtype=float16", "--json")
    assert status == 0, err
    report = json.loads(out)
    assert report["engine"] == "rewrite" and reason in report["engine_reason"]
    assert report["coverage"]["converted_ops"] == report["coverage"]["tensor_core_ops"] == 6


def test_the_rewrite_where_the_recipe_is_not_proved(folder, built_in_forks, capfd, monkeypatch):
    made = python_file.make_report

    def unproved(*arguments):
        report = made(*arguments)
        claim = {"name": "same graph", "status": FAILED, "text": "nodes differ"}
        return dict(report, checks=[claim, *report["checks"]])

    monkeypatch.setattr(python_file, "make_report", unproved)
    (folder / "net.py").write_text(scripts.script("run"))
    flags = ["--compute_dtype=float16", "--json"]
    status, out, err = graphmp(capfd, "convert", "net.py", *flags)
    assert status == 0, err
    report = json.loads(out)
    assert (
        report["engine"] == "rewrite" and "can't be proved: same graph" in report["engine_reason"]
    )
    status, out, err = graphmp(capfd, "convert", "net.py", "--engine_strict", *flags)
    assert status == 0 and json.loads(out)["engine"] == "recipe", err


def test_the_rewrite_of_a_python_file(folder, built_in_forks, capfd):
    (folder / "net.py").write_text(scripts.script("run"))
    status, out, err = graphmp(capfd, "convert", "net.py", "--engine=rewrite", "--loss_scale=none")
    assert status == 0, err
    assert "engine       rewrite (asked for)" in out and "6 of 6 matmuls" in out
    converted = read_graph(folder / "net_graphmp" / "converted.meta")
    assert facts.coverage(converted.graph_def) == {"tensor_core_ops": 6, "converted_ops": 6}


def test_a_function_that_trains_inside_itself_is_rewritten(folder, built_in_forks, capfd):
    text = (
        scripts.NET.split("early = ")[0]
        + "def main():\n    loss, train = build_training_model(x, y)\n    sess = tf.Session()\n   "
        " sess.run(tf.global_variables_initializer())\n    sess.run(train, {x: X, y:"
        " Y})\n\nmain()\n"
    )
    (folder / "net.py").write_text(text)
    status, out, err = graphmp(capfd, "convert", "net.py:main")
    assert status == 0, err
    assert (
        "engine       rewrite (the recipe does not fit: GMP019" in out and "6 of 6 matmuls" in out
    )


@recorded(slice(1))
def test_the_same_bytes_in_any_process(paths, folder, capfd):
    """But for the seconds in the report.

    Another process has another order of sets, by the seed of its hashes.
    """
    arguments = ["convert", str(paths[-1]), "--loss_scale=none", "-o"]
    assert graphmp(capfd, *arguments, "1")[0] == 0
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONHASHSEED=seed)
    command = [sys.executable, "-m", "graphmp", *arguments, "2"]
    assert subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode == 0
    for name in set(FILES) - {"report.json"}:
        assert (folder / "1" / name).read_bytes() == (folder / "2" / name).read_bytes(), name
    one, two = (json.loads((folder / number / "report.json").read_text()) for number in ("1", "2"))
    assert dict(one, seconds=0) == dict(two, seconds=0)
