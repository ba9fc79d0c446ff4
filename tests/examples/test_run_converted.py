"""`examples/run_converted.py` trains any converted graph, with any losses, optimizers and data."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.corpus import own_graphs
from tests.support.places import ROOT

SCALE = re.compile(r"loss scale \d+\b")
SCRIPT = str(ROOT / "examples" / "run_converted.py")
TRAIN_OPS = {
    "gan": [["train_discriminator"], ["train_generator"]],
    "images": [["Momentum"]],
    "keras_layers": [["train"]],
    "words": [["train"]],
}


def trained(forks, folder, *flags):
    """The result of `run_converted.py` on a folder, after three steps."""
    return forks.run(SCRIPT, str(folder), "--steps=3", *flags, flags=None)


def by_hand():
    """A training step without Apply op, train op, losses or variables in any collection."""
    x = tf.placeholder(tf.float32, [None, 12], "x")
    labels = tf.placeholder(tf.int64, [None], "labels")
    weights = [
        tf.Variable(tf.random_normal(shape, stddev=0.1, seed=1), collections=[])
        for shape in ([12, 16], [16, 5])
    ]
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, weights[0])), weights[1])
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="loss"
    )
    gradients = tf.gradients(loss, weights)
    tf.group(
        *[
            tf.assign_sub(variable, 0.1 * gradient)
            for variable, gradient in zip(weights, gradients)
        ],
        name="step",
    )


def of_loss(make):
    """A dense layer with the loss that `make` computes from its output."""
    x = tf.placeholder(tf.float32, [None, 4], "x")
    rate = tf.get_variable("rate", [], initializer=tf.zeros_initializer(), trainable=False)
    loss = tf.identity(make(tf.layers.dense(x, 2)), name="loss")
    tf.train.GradientDescentOptimizer(rate).minimize(loss)


def converted(folder, build, **options):
    """A graph, converted into a folder."""
    with tf.Graph().as_default():
        build()
        graphmp.convert(tf.train.export_meta_graph(), **options).save(folder)
    return folder


@pytest.fixture(scope="module")
def hand_made(tmp_path_factory):
    return converted(tmp_path_factory.mktemp("hand_made"), by_hand, loss_scale=128.0)


@pytest.mark.parametrize("path", own_graphs(), ids=lambda path: path.stem)
def test_each_recorded_graph(path, forks, tmp_path):
    conversion = graphmp.convert(path)
    conversion.save(tmp_path)
    train_ops = TRAIN_OPS[path.stem]
    found = [loss["train_ops"] for loss in conversion.report["losses"]]
    assert (
        [[name for name in names if "ReadVariableOp" not in name] for names in found]
        == found
        == train_ops
    )
    ended = trained(forks, tmp_path)
    *steps, last = ended.out.splitlines()
    assert (ended.status, len(steps)) == (0, 3), ended.err
    assert all(
        line.startswith("step  ")
        and len(SCALE.findall(line)) == len(train_ops)
        and "nan" not in line
        for line in steps
    )
    assert (
        last.startswith("3 steps in ")
        and last.count(" 0 skipped") == len(train_ops)
        and "(" not in last
    )


def test_a_loss_falls_that_nothing_but_the_report_names(hand_made, forks):
    lines = trained(forks, hand_made).out.splitlines()
    losses = [float(line.split()[3].rstrip(",")) for line in lines[:3]]
    assert (
        losses == sorted(losses, reverse=True)
        and losses[0] > losses[-1]
        and "loss scale 128, 0 skipped" in lines[-1]
    )


def test_own_data(hand_made, forks, tmp_path):
    random = np.random.RandomState(1)
    np.savez(
        str(tmp_path / "data.npz"),
        x=random.rand(24, 12).astype(np.float32),
        labels=random.randint(0, 5, 24),
    )
    ended = trained(forks, hand_made, "--data", str(tmp_path / "data.npz"), "--batch_size=8")
    assert ended.status == 0 and len(ended.out.splitlines()) == 4, ended.err
    np.savez(str(tmp_path / "data.npz"), x=random.rand(24, 12).astype(np.float32))
    ended = trained(forks, hand_made, "--data", str(tmp_path / "data.npz"))
    assert (ended.status, ended.out) == (2, "")
    assert refusal(ended).startswith("run_converted: GMP002: --data=") and "labels" in refusal(
        ended
    )


def refusal(ended):
    """The script's own line on stderr."""
    (line,) = [line for line in ended.err.splitlines() if line.startswith("run_converted: ")]
    assert "Traceback" not in ended.err
    return line


def test_a_loss_that_does_not_train_is_said(forks, tmp_path):
    ended = trained(
        forks,
        converted(tmp_path / "a", lambda: of_loss(lambda y: tf.reduce_mean(tf.sqrt(-tf.exp(y))))),
    )
    assert (
        ended.status == 1
        and "3 skipped (does not train: `graphmp audit DIR/original.meta`"
        in ended.out.splitlines()[-1]
    )
    ended = trained(
        forks, converted(tmp_path / "b", lambda: of_loss(lambda y: tf.reduce_mean(y * y)))
    )
    assert (
        ended.status == 0
        and "0 skipped (stands still: its script may assign the learning rate"
        in ended.out.splitlines()[-1]
    )


def test_a_folder_that_is_none(hand_made, forks, tmp_path):
    ended = trained(forks, tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "no report of a conversion" in refusal(
        ended
    ) and "`graphmp convert SOURCE -o DIR`" in refusal(ended)
    report = json.loads((hand_made / "report.json").read_text(encoding="utf-8"))
    (tmp_path / "report.json").write_text(json.dumps(dict(report, losses=[])))
    assert (
        "report.json names no op that trains; convert again, with --train_op=OP --loss=TENSOR"
        in refusal(trained(forks, tmp_path))
    )


@pytest.mark.unit
def test_losses_with_one_train_op_name_it_both(graph):
    x = tf.placeholder(tf.float32, [None, 4], "x")
    steps = []
    for name in ("first", "second"):
        loss = tf.reduce_mean(tf.layers.dense(x, 2, name=name))
        steps.append(
            tf.train.AdamOptimizer(name=name + "_step").minimize(
                loss, var_list=tf.trainable_variables(name)
            )
        )
    tf.group(*steps, name="both")
    losses = graphmp.convert(tf.train.export_meta_graph()).report["losses"]
    assert [loss["train_ops"] for loss in losses] == [["both"], ["both"]]


@pytest.mark.unit
def test_the_step_counter_and_averages_are_part_of_the_step(graph):
    x = tf.placeholder(tf.float32, [None, 4], "x")
    loss = tf.reduce_mean(tf.layers.dense(x, 2))
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, tf.train.get_or_create_global_step())
    with tf.control_dependencies([step]):
        tf.group(tf.train.ExponentialMovingAverage(0.9).apply(), name="averaged")
    for scale in ("dynamic", 128.0, "none"):
        (row,) = graphmp.convert(tf.train.export_meta_graph(), loss_scale=scale).report["losses"]
        assert row["train_ops"] == ["averaged"]


@pytest.mark.unit
def test_it_is_listed_where_examples_are():
    assert "run_converted.py" in pathlib.Path(SCRIPT).parent.joinpath("README.md").read_text(
        encoding="utf-8"
    )
