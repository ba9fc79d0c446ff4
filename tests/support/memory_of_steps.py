"""Graphs of known memory, and the command on them."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from graphmp.cli.main import run_command
from graphmp.config import Config
from graphmp.policy.policy import Policy

CONFIG = Config.make(loss_scale="none")


POLICY = Policy.default("float16")


def built(build):
    """The graph that a function builds."""
    with tf.Graph().as_default():
        build()
        return tf.train.export_meta_graph()


def dense(batch=8):
    """Two layers and a squared error, under momentum."""
    x, t = (
        tf.placeholder(tf.float32, [batch, 12], name="x"),
        tf.placeholder(tf.float32, [batch, 1], name="t"),
    )
    h = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [12, 16])), name="h")
    loss = tf.reduce_mean(
        tf.square(tf.subtract(tf.matmul(h, tf.get_variable("u", [16, 1])), t, name="off"))
    )
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, tf.train.get_or_create_global_step())


def printed(capsys, *argv, status=0):
    assert run_command(["graphmp", "inspect", *argv]) == status
    return capsys.readouterr()
