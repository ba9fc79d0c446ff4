"""Whichever way graphmp sees a graph being built, its gradient code is that of the calls.

Here no name and no matmul tells of it.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.session.live.live_graph import known_live_graph, live_graph
from graphmp.session.live.observer import Observer

SCRIPT = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior() if tf.__version__ > "2" else None
x = tf.placeholder(tf.float32, [4, 3], "x")
weight = tf.get_variable("weight", [3], use_resource=True, initializer=tf.ones_initializer())
with tf.GradientTape() as tape:
    loss = tf.reduce_mean((tf.matmul(x, tf.eye(3)) * weight) ** 2)
train = weight.assign_sub(0.1 * tape.gradient(loss, weight))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {x: np.ones([4, 3], "f")})
"""
X = np.ones([4, 3], np.float32)


class Seen(Observer):
    """Keeps the losses of the last conversion."""

    def converted(self, live):
        self.losses = live.converted.record.losses


def build(x):
    weight = tf.get_variable("weight", [3], use_resource=True, initializer=tf.ones_initializer())
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(x, tf.eye(3)) * weight) ** 2)
    return weight.assign_sub(0.1 * tape.gradient(loss, weight))


def check(losses):
    assert [loss["gradient_scope"] for loss in losses] == ["gradient tape"]


def trained(session, train):
    session.run(tf.global_variables_initializer())
    session.run(train, {"x:0": X})


def test_a_python_file(tmp_path, built_in_forks):
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    conversion = graphmp.convert(str(path))
    check(conversion.report["losses"])
    assert (
        graphmp.convert(conversion.original).report["losses"] == []
    )  # where all that there is are names


def test_a_script(tmp_path, monkeypatch, forks):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SCRIPT)
    ended = forks.run("model.py")
    assert ended.status == 0 and "1 training step; loss scale" in ended.err


def test_a_session(graph):
    train = build(tf.placeholder(tf.float32, [4, 3], "x"))
    with graphmp.Session() as session:
        live_graph(graph, known_live_graph(graph).config, Seen())
        trained(session, train)
    check(known_live_graph(graph).observer.losses)


def test_a_function_that_trains_inside(graph):
    weight = tf.get_variable("weight", [3], use_resource=True, initializer=tf.ones_initializer())

    @tf.function
    def train(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(x, tf.eye(3)) * weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    loss = train(tf.placeholder(tf.float32, [4, 3], "x"))
    with graphmp.Session() as session:
        live_graph(graph, known_live_graph(graph).config, Seen())
        trained(session, loss)
    assert [
        loss["gradient_scope"].rpartition("/")[2]
        for loss in known_live_graph(graph).observer.losses
    ] == ["gradient tape"]


def test_a_decorated_function(graph):
    @graphmp.mixed_precision
    def model(x):
        return build(
            tf.matmul(x * tf.constant(2.0), tf.get_variable("first", [3, 3]))
            * tf.constant(np.ones(3, np.float32))
        )  # mixes dtypes

    train = model(tf.placeholder(tf.float32, [4, 3], "x"))
    live_graph(graph, known_live_graph(graph).config, Seen())
    with tf.Session() as session:
        trained(session, train)
    check(known_live_graph(graph).observer.losses)
