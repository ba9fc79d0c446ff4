"""A conversion gives the same bytes in any process, whatever its hash seed, and `--check` says
what differs first.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from graphmp.conversion.conversion import FILES
from graphmp.conversion.export import exported, make_canonical
from graphmp.gate.reading import read_graph
from tests.support.commands import graphmp
from tests.support.places import ROOT

# They are run, not converted: one's function takes arguments of its own, one converts by hand.
RUN = ("ps_cluster", "talk_steps")
EXAMPLES = sorted(
    path.stem
    for path in (ROOT / "examples").glob("*.py")
    if "def build_training_model" in path.read_text() and path.stem not in RUN
)
SCRIPT = """
import random
import numpy as np
import tensorflow.compat.v1 as tf
if tf.__version__ > "2":
    tf.disable_v2_behavior()

def twice(t):
    return t * 2.0

twice = tf.function(twice) if hasattr(tf, "function") else twice

def build_training_model(x, y):
    h = tf.layers.dense(x, 16, kernel_initializer=tf.keras.initializers.RandomNormal())
    h = tf.keras.layers.Dropout(0.1)(h, training=True)
    EXTRA
    drawn = tf.constant(np.random.rand(8).astype("f") * random.random(), name="drawn")
    h = tf.layers.dense(h, 8) * tf.cast(drawn, h.dtype)
    h = tf.cond(tf.size(h) > 0, lambda: h * x[:, :8] + x[:, 8:9] * x[:, 9:10], lambda: h - x[:, :1] - x[:, 1:2])
    w = tf.get_variable("w", [8, 8])
    _, h = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w)) + x[:, :1]), [0, h])
    for name in {"alpha", "beta", "gamma", "delta"}:
        h = tf.identity(h, name=name)
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(h, 1))
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

x, y = tf.placeholder(tf.float32, (None, 12), "x"), tf.placeholder(tf.float32, (None, 1), "y")
build_training_model(x, y)
"""
KERAS = SCRIPT.replace(
    "EXTRA", 'h = twice(tf.keras.layers.Dense(16, kernel_initializer="glorot_uniform")(h))'
)


def converted(folder, name, seed, *arguments):
    """The files of a conversion in a process of its own."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONHASHSEED=seed)
    command = [
        sys.executable,
        "-m",
        "graphmp",
        "convert",
        "-o",
        str(folder / name),
        *map(str, arguments),
    ]
    done = subprocess.run(
        command, cwd=str(folder), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout.decode()
    return {file: (folder / name / file).read_bytes() for file in FILES}


@pytest.mark.parametrize(
    "text, engine",
    [(SCRIPT.replace("    EXTRA\n", ""), "recipe"), (KERAS, "rewrite")],
    ids=["recipe", "rewrite"],
)
@pytest.mark.slow
def test_a_script_gives_the_same_bytes_in_any_process(tmp_path, text, engine):
    (tmp_path / "net.py").write_text(text)
    first, second = (
        converted(tmp_path, "out" + seed, seed, "net.py", "--engine=" + engine)
        for seed in ("1", "2")
    )
    assert [name for name in FILES if first[name] != second[name]] == []
    assert json.loads(first["report.json"].decode())["engine"] == engine


@pytest.mark.parametrize("engine", ["auto", "rewrite"])
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.slow
def test_an_example_gives_the_same_bytes_in_any_process(tmp_path, name, engine):
    source = ROOT / "examples" / (name + ".py")
    first, second = (
        converted(tmp_path, "out" + seed, seed, source, "--engine=" + engine, "--", "--smoke")
        for seed in ("1", "2")
    )
    assert [name for name in FILES if first[name] != second[name]] == []


NET = """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior() if tf.__version__ > "2" else None

def build_training_model(x):
    h = tf.layers.dense(x, 16, name="hidden")
    mean = tf.reduce_mean(h, 1, keepdims=True, name="mean")
    loss = tf.losses.mean_squared_error(x[:, :1], tf.layers.dense(h * mean, 1))
    optimizer = tf.train.AdamOptimizer(RATE)
    gradients, tensors = zip(*optimizer.compute_gradients(loss))
    return loss, optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 5.0)[0], tensors))

build_training_model(tf.placeholder(tf.float32, (None, 12), "x"))
"""


@pytest.fixture
def net(tmp_path, monkeypatch, built_in_forks, capfd):
    """A converted script in the working folder, and the summary that was printed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET.replace("RATE", "0.01"))
    status, out, err = graphmp(capfd, "convert", "net.py", "-o", "out")
    assert status == 0, err
    return tmp_path, out


def test_check_agrees_and_says_what_differs_first(net, capfd):
    folder, _ = net
    assert graphmp(capfd, "convert", "net.py", "--check", "-o", "out")[:2] == (
        0,
        "ok           out is what net.py gives today\n",
    )
    (folder / "net.py").write_text(NET.replace("RATE", "0.02"))
    status, out, _ = graphmp(capfd, "convert", "net.py", "--check", "-o", "out")
    assert (
        status == 1
        and "stale        original.meta, converted.meta, report.json, diff.html in out" in out
    )
    assert "first        original.meta: Adam/learning_rate: " in out
    (folder / "out" / "flags.txt").unlink()
    value = json.loads(graphmp(capfd, "convert", "net.py", "--check", "-o", "out", "--json")[1])
    assert value["differences"]["flags.txt"] == "is missing" and value["differences"][
        "report.json"
    ].startswith("source_sha256: ")


def test_words_about_a_recipe(net, capfd):
    """The clip of the model's own, the ops between that are float32, and the flags that change a
    node.
    """
    folder, out = net
    report = json.loads((folder / "out" / "report.json").read_text())
    assert report["losses"][0]["user_clips"] == [
        {
            "after_unscale": True,
            "kind": "global norm",
            "limits": None,
            "node": "clip_by_global_norm/Minimum",
            "norm": 5.0,
        }
    ]
    assert (
        "clip global norm 5 (the model's own)" in out
        and "clip_by_global_norm/Minimum, after the unscale" in out
    )
    assert report["engine"] == "recipe" and report["repaired_ops"].get("Mean") == 1
    assert "computed in float32 and cast back, as the policy says: " in out
    status, out, _ = graphmp(capfd, "explain", "out/converted.meta", "hidden/MatMul")
    assert status == 0 and "flag         --keep_float32='^hidden/MatMul$' (changes 1 node)" in out
    assert "next         graphmp convert net.py --keep_float32='^hidden/MatMul$'" in out
    out = graphmp(capfd, "explain", "out/converted.meta", "mean")[1]
    assert "--force_compute='^mean$' (changes 1 node)" in out
    for flag, node in (("keep_float32", "hidden/MatMul"), ("force_compute", "mean")):
        assert (
            graphmp(
                capfd,
                "convert",
                "net.py",
                "--engine=recipe",
                "--%s=^%s$" % (flag, node),
                "-o",
                flag,
            )[0]
            == 0
        )
        nodes = {
            each.name: each for each in read_graph(folder / flag / "converted.meta").graph_def.node
        }
        assert (nodes[node].attr["T"].type == tf.float16.as_datatype_enum) == (
            flag == "force_compute"
        )


def test_run_exits_as_the_table_of_errors_says(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text('print "hello"\n')
    ended = forks.run("old.py")
    assert ended.status == 2 and "graphmp: error GMP005: old.py:1" in ended.err


@pytest.mark.unit
def test_what_tensorflow_names_at_random_has_one_name():
    """The folder of a sharded Saver's parts (1.15.5), and a hash table's shared name.

    Two of them stay two.
    """
    found = []
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            tf.get_variable("w", [2])
            for name in ("words", "tags"):
                keys = tf.lookup.KeyValueTensorInitializer(["a"], [0], tf.string, tf.int64)
                tf.lookup.StaticHashTable(keys, -1, name=name)
            tf.train.Saver(sharded=True)
        found.append(exported(graph))
    assert found[0].SerializeToString(deterministic=True) == found[1].SerializeToString(
        deterministic=True
    )
    nodes = found[0].graph_def.node
    assert len({node.attr["shared_name"].s for node in nodes if node.op == "HashTableV2"}) == 2
    assert any(
        re.match(b"_temp(_[0-9a-f]{32})?/part$", text)
        for node in nodes
        for text in node.attr["value"].tensor.string_val
    )


@pytest.mark.unit
def test_a_configuration_inside_an_attribute_has_one_order():
    """Of its map, which TensorFlow 1.15.5 serializes as it lies in memory.

    In the graph and in functions.
    """
    orders = [
        b"\n\x07\n\x03CPU\x10\x01\n\x07\n\x03GPU\x10\x00",
        b"\n\x07\n\x03GPU\x10\x00\n\x07\n\x03CPU\x10\x01",
    ]
    found = set()
    for order in orders:
        meta_graph = tf.MetaGraphDef()
        nodes = (meta_graph.graph_def.node, meta_graph.graph_def.library.function.add().node_def)
        for node in nodes:
            node.add(name="call", op="PartitionedCall").attr["config_proto"].s = order
        make_canonical(meta_graph)
        found.add(tuple(node[0].attr["config_proto"].s for node in nodes))
    assert found == {(orders[0], orders[0])}
