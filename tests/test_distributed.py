"""Clusters of real processes on this machine: parameter servers, workers, converted in every way, killed and started again.

Each process has a deadline of its own (tests/forks.py), and each cluster ends all that it started.
"""

from __future__ import annotations

import importlib
import re
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.clusters import EXAMPLES, Cluster

NEWEST = tf.__version__ > "2"
HALF = "bfloat16" if NEWEST else "float16"  # 1.15.5's CPU has no bfloat16 convolutions, and emulates float16 slowly
RUN = ["--compute_dtype=" + HALF]
SMALL = ["--smoke", "--width=16", "--image_size=8", "--batch_size=24", "--log_every=100"]
STEP = re.compile(r"^worker \d  step +(\d+)  loss (\S+)$", re.MULTILINE)
START = "state/model.ckpt-0"  # what the chief saves before it trains
SHARED = "graphmp/loss_scale/"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder, in which the cluster keeps its checkpoints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return tmp_path


@pytest.fixture
def example(monkeypatch):
    """The example's module and its flags for an argument list."""
    module = importlib.import_module("ps_cluster")

    def flags(*argv):
        monkeypatch.setattr(sys, "argv", ["ps_cluster.py", *argv])
        return module.training.start("", module.SIZES, data_format=True)

    module.flags = flags
    return module


def train(forks, ps, workers, *argv, flags=None, steps=200):
    """Trains a cluster to the end; how its workers ended."""
    argv = (*SMALL, "--steps=%d" % steps, "--checkpoint_dir=state", *argv)
    with Cluster(forks, ps, workers, *argv, flags=flags) as cluster:
        cluster.start_workers()
        ended = cluster.wait()
    assert [each.status for each in ended] == [0] * workers, "\n".join(each.err for each in ended)
    return ended


def loss_of(example, argv, weights=None, steps=0):
    """The mean loss on 20 batches that nothing was trained on, of one process in float32.

    Args:
        example: the example's module.
        argv: its flags.
        weights: a checkpoint's prefix to start from.
        steps: how many steps to train with the whole batch before.
    """
    flags = example.flags(*SMALL, *argv)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        optimizer = tf.train.MomentumOptimizer(flags.learning_rate, example.MOMENTUM)
        *inputs, loss, train_op = example.build_training_model(*example.placeholders(flags), optimizer, flags)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            if weights:
                for variable in tf.trainable_variables():
                    variable.load(tf.train.load_variable(weights, variable.op.name), session)
            for _, batch in zip(range(steps), example.batches(flags)):
                session.run(train_op, dict(zip(inputs, batch)))
            return np.mean([session.run(loss, dict(zip(inputs, batch))) for batch in unseen(example, flags)])


def unseen(example, flags):
    """Batches like those trained on: the same patterns or rules, from further on."""
    return [batch for number, batch in zip(range(40), example.batches(flags)) if number >= 20]


def assert_whole(ended):
    """That all workers converted the same graph, and all that Tensor Cores compute in it."""
    found = {re.search(r"(\d+) of (\d+) matmuls and convolutions", each.err).groups() for each in ended}
    assert len(found) == 1 and all(some == every for some, every in found)


def test_synchronised_workers_train_as_one_process_with_the_whole_batch(forks, example):
    argv = ["--model=cnn", "--learning_rate=0.002"]
    assert_whole(train(forks, 1, 2, *argv, "--updates=sync", flags=RUN))
    latest = tf.train.latest_checkpoint("state")
    assert tf.train.load_variable(latest, "global_step") >= 200
    first, alone = (loss_of(example, argv, START, steps) for steps in (0, 200))
    assert alone < 0.9 * first
    assert loss_of(example, argv, latest) == pytest.approx(alone, rel=0.01)


def test_a_partitioned_embedding_trains_as_in_float32(forks, example):
    """Not as one process: TensorFlow's accumulators take rows that occur several times in a batch for rows of several workers."""
    argv = ["--model=embedding", "--vocabulary=20", "--batch_size=96"]
    found = []
    for flags in (None, RUN):
        ended = train(forks, 2, 3, *argv, "--updates=sync", "--partitions=2", "--checkpoint_dir=%s" % bool(flags), flags=flags)
        found.append(loss_of(example, argv, tf.train.latest_checkpoint(str(bool(flags)))))
    assert_whole(ended)
    assert found[1] == pytest.approx(found[0], rel=0.01) and found[0] < 0.5


@pytest.mark.parametrize("kind", ["reference", "resource"])
def test_workers_at_their_own_pace_by_the_decorator(kind, forks, example):
    argv = ["--model=cnn", "--mixed_precision", "--compute_dtype=" + HALF, "--loss_scale=dynamic", "--variables=" + kind]
    train(forks, 2, 2, *argv, steps=60)
    latest = tf.train.latest_checkpoint("state")
    assert loss_of(example, argv[:1], latest) < 0.9 * loss_of(example, argv[:1], START)
    steps = tf.train.load_variable(latest, SHARED + "good_steps")  # counted by both workers, who may write it at once
    assert 60 / 2 <= steps <= tf.train.load_variable(latest, "global_step")
    assert tf.train.load_variable(latest, SHARED + "scale") == 2.0**15
