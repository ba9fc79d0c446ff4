"""Scripts run by `graphmp run`, in a process of their own or in a fork."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from tests.support.places import environment

TRAIN = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution() if hasattr(tf, "disable_eager_execution") else None
x, y = tf.placeholder(tf.float32, [None, 8]), tf.placeholder(tf.float32, [None, 1])
tf.set_random_seed(1)
hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [8, 16])))
loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tf.get_variable("v", [16, 1])) - y))
step = tf.train.get_or_create_global_step()
train = tf.train.AdamOptimizer(0.01).minimize(loss, step)
X = np.random.RandomState(0).randn(32, 8).astype("f")
feed = {x: X, y: X[:, :1] * 2}
"""
LOOP = """
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    losses = [session.run([loss, train], feed)[0] for _ in range(20)]
print("%.6f %.6f" % (losses[0], losses[-1]))
"""


def command(*argv):
    return [sys.executable, "-m", "graphmp", "run", *argv]


def run(folder, text, *argv, flags=(), stdin=""):
    """Runs a script of this text: exit status, stdout, stderr's lines."""
    (folder / "train.py").write_text(text)
    return finished(command(*flags, "train.py", *argv), stdin)


def finished(argv, stdin=""):
    done = subprocess.run(argv, input=stdin.encode(), capture_output=True, env=environment())
    return done.returncode, done.stdout.decode(), done.stderr.decode().splitlines()


def forked(forks, text, *argv, flags=(), stdin=""):
    """As `run`, in a fork of a process that has started; with flags=None under plain Python."""
    pathlib.Path("train.py").write_text(text)
    ended = forks.run("train.py", *argv, flags=flags, stdin=stdin)
    return ended.status, ended.out, ended.err.splitlines()
