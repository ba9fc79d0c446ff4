"""`graphmp run` of scripts that import a .meta: one of a run, of plain training, of `convert`."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow.compat.v1 as tf

from graphmp.naming import SCOPE
from tests.support.forks import NET

# It builds the graph, or imports the last .meta of its folder, and trains.
TRAIN = """
from net import *
steps, how = int(sys.argv[1]), sys.argv[2]
last = tf.train.latest_checkpoint("model")
if last:
    saver = tf.train.import_meta_graph(last + ".meta")
else:
    build()
    tf.global_variables_initializer()
    saver = tf.train.Saver()
def run(session):
    for _ in range(steps):
        at = session.run("global_step:0")
        print("model %d %.6f" % (at, session.run(["loss:0", "train"], {"x:0": X})[0]))
if how == "monitored":
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir="model", save_checkpoint_steps=1, save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None
    ) as session:
        run(session)
else:
    with tf.Session() as session:
        saver.restore(session, last) if last else session.run("init")
        run(session)
        saver.save(session, "model/model", tf.train.get_global_step())
"""
STARTS = ["--loss_scale_initial=64", "--loss_scale_growth_interval=4"]
pytestmark = pytest.mark.usefixtures("net_folder")


def losses(ended):
    assert ended.status == 0, ended.err
    rows = [line.split() for line in ended.out.splitlines() if line.startswith("model ")]
    return {int(at): float(loss) for _, at, loss in rows}


def nodes():
    meta_graph = tf.MetaGraphDef()
    path = pathlib.Path(tf.train.latest_checkpoint("model") + ".meta")
    meta_graph.ParseFromString(path.read_bytes())
    return {node.name for node in meta_graph.graph_def.node}


@pytest.mark.parametrize("how", ["plain", "monitored"])
def test_a_meta_graph_goes_on_whoever_trained_it(forks, tmp_path, monkeypatch, how):
    """Under run, without graphmp, and under run again: the losses of one float32 run."""
    for folder in ("reference", "run"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(NET)
        (tmp_path / folder / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path / "reference")
    expected = losses(forks.run("train.py", "14", how, flags=None))
    monkeypatch.chdir(tmp_path / "run")
    before = "this graph was trained in mixed precision before, with "
    found = {}
    for flags, said, end in (
        (STARTS, None, "loss scale 64; 0 skipped"),
        (STARTS, before + "the same flags", "loss scale 128; 0 skipped"),
        (None, None, None),
        (
            ["--loss_scale=128"],
            before + "--loss_scale=dynamic, --loss_scale_growth_interval=4,"
            " --loss_scale_initial=64; now with --loss_scale=128,"
            " --loss_scale_growth_interval=2000, --loss_scale_initial=32768",
            "3 training steps",
        ),
    ):
        ended = forks.run("train.py", "3", how, flags=flags)
        found.update(losses(ended))
        assert not any(name.startswith(SCOPE + "/") for name in nodes())
        if flags is not None:
            assert [line for line in ended.said if line.startswith(before)] == [said] * bool(said)
            assert ended.said[-1].endswith(end)
    assert found == pytest.approx({at: expected[at] for at in range(12)}, rel=1e-2)


def test_a_meta_graph_of_a_session_that_is_imported_into_a_scope_twice(forks):
    """TensorFlow puts the scope ahead of the mark, as text."""
    text = """
from net import *
build()
saver, at, path = tf.train.Saver(), "", "zero"
for scope in ("one", "two", None):
    with tf.Session() as session:
        if path == "zero":
            session.run(tf.global_variables_initializer())
        else:
            saver.restore(session, path)
        print("model %s %.6f" % (path, session.run([at + "loss:0", at + "train"], {at + "x:0": X})[0]))
        saver.save(session, scope or "end")
    tf.reset_default_graph()
    if scope:
        saver = tf.train.import_meta_graph(scope + ".meta", import_scope=scope)
        at, path = scope + "/" + at, scope
"""
    pathlib.Path("train.py").write_text(text)
    plain = forks.run("train.py", flags=None)
    ended = forks.run("train.py", flags=STARTS)
    assert ended.status == 0, ended.err
    values = [[float(line.split()[2]) for line in each.out.splitlines()] for each in (plain, ended)]
    assert values[1] == pytest.approx(values[0], rel=1e-2) and len(values[0]) == 3
    said = "this graph was trained in mixed precision before, with the same flags"
    assert ended.said.count(said) == 2


def test_a_plain_meta_graph_trains_in_mixed_precision(forks):
    pathlib.Path("train.py").write_text(TRAIN)
    first = losses(forks.run("train.py", "3", "plain", flags=None))
    ended = forks.run("train.py", "3", "plain", flags=STARTS)
    assert set(losses(ended)) == {at + 3 for at in first}
    assert ended.said[1].startswith("converted ")
    assert not any("before" in line for line in ended.said)


@pytest.mark.parametrize("scope", ["", "again"])
def test_a_meta_graph_with_the_copies_of_a_session(forks, scope):
    """As earlier versions wrote it: the copies are left out, and train no more."""
    text = """
from net import *
scope = sys.argv[1:] and sys.argv[1]
if scope is not None and tf.io.gfile.exists("old.meta"):
    saver = tf.train.import_meta_graph("old.meta", import_scope=scope or None)
    at = scope + "/" if scope else ""
    with tf.Session() as session:
        saver.restore(session, "old")
        scale = session.graph.get_tensor_by_name(at + "graphmp/loss_scale/current:0")
        tf.summary.scalar("scale", scale)
        value = session.run([at + "loss:0", at + "train"], {at + "x:0": X})[0]
        print("model %d %.6f" % (session.run(at + "global_step:0"), value))
        saver.save(session, "new")
    with tf.Graph().as_default():
        tf.train.import_meta_graph("new.meta")  # with the summary
else:
    build()
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run("train", {"x:0": X})
        saver.save(session, "old", write_meta_graph=False)
        meta_graph = tf.train.export_meta_graph(saver_def=saver.saver_def)
        meta_graph.graph_def.CopyFrom(session.graph._as_graph_def(add_shapes=True)[0])
        meta_graph.collection_def.pop("graphmp_session", None)
        with open("old.meta", "wb") as file:
            file.write(meta_graph.SerializeToString())
"""
    pathlib.Path("train.py").write_text(text)
    first = forks.run("train.py", flags=STARTS)
    assert first.status == 0, first.err
    ended = forks.run("train.py", scope, flags=STARTS)
    assert set(losses(ended)) == {6}
    assert "this graph was trained in mixed precision before" in ended.said
    assert ended.said[-1] == "1 training step; loss scale 128; 0 skipped"


def test_a_result_of_convert_trains_as_it_is(forks):
    """Flags have no effect on it, and that is said."""
    text = """
from net import *
if sys.argv[1:]:
    tf.train.import_meta_graph(sys.argv[1])
else:
    build(), tf.global_variables_initializer()
with tf.Session() as session:
    session.run("init")
    losses = [session.run(["loss:0", "train"], {"x:0": X})[0] for _ in range(5)]
print("%.6f %.6f" % (losses[0], losses[-1]))
"""
    pathlib.Path("train.py").write_text(text)
    first = forks.run("train.py", flags=["--report=out"])
    assert first.status == 0, first.err
    same = forks.run("train.py", "out/converted.meta", flags=["--verify"])
    assert (same.status, same.out) == (0, first.out)
    assert same.said[1:] == [
        "warning GMP108: this graph was converted with the same flags: nothing to change",
        "nothing to verify: the graph trains as it is",
        "5 training steps",
    ]
    other = forks.run("train.py", "out/converted.meta", flags=["--clip_norm=5"])
    assert (other.status, other.out) == (0, first.out)
    assert other.said[1].startswith("warning GMP108: the graph was converted by graphmp ")
    assert other.said[1].endswith(" with --compute_dtype=float16: it trains as it is")
    assert other.said[2:] == [
        "warning GMP124: --clip_norm=5: no effect on a graph that is converted; convert the"
        " original for that",
        "5 training steps",
    ]


ASSIGNING = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior() if tf.__version__ > "2" else None
tf.train.import_meta_graph("built.meta")
with tf.Session() as session:
    session.run("init")
    for _ in range(3):
        print("%.6f" % session.run(["loss:0", "train"], {"x:0": np.ones((8, 4))})[0])
"""


@pytest.mark.parametrize("resource", [False, True])
def test_an_imported_graph_of_assignments_is_converted(forks, resource):
    """No kernel of an optimizer tells of its training, only the names of its gradients."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (8, 4), "x")
        ones = tf.initializers.constant(0.3)
        weight, moment = (
            tf.get_variable(
                name, (4, 1), trainable=name == "weight", initializer=ones, use_resource=resource
            )
            for name in ("weight", "moment")
        )
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weight)), name="loss")
        new = 0.9 * moment + tf.gradients(loss, [weight])[0]
        tf.group(weight.assign_sub(0.01 * new), moment.assign(new), name="train")
        tf.global_variables_initializer()
        tf.train.export_meta_graph("built.meta")
    pathlib.Path("train.py").write_text(ASSIGNING)
    ended = forks.run("train.py")
    plain = forks.run("train.py", flags=None)
    assert ended.status == plain.status == 0, ended.err
    assert ended.numbers == pytest.approx(plain.numbers, rel=1e-2)
    assert "3 of 3 matmuls and convolutions in float16" in ended.said[1]
    assert ended.said[-1].startswith("3 training steps; loss scale ")
    assert ended.said[-1].endswith("; 0 skipped")
