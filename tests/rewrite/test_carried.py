"""What a write takes over from a variable's value is float32, also where a matmul reads it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.control_flow import control_flow
from tests.support.painting import built, converted, decide, placeholders, session

RANDOM = np.random.RandomState(0)
REASON = "variable: hands the value of a variable on to a write"
NEW = {
    "added": lambda old, delta: old + delta,
    "added by three": lambda old, delta: tf.add_n([old, delta, delta]),
    "averaged": lambda old, delta: 0.9 * old + 0.1 * tf.tanh(delta),
    "bounded": lambda old, delta: tf.clip_by_value(old + delta, -1.0, 1.0),
    "chosen": lambda old, delta: tf.where(delta > 0, old + delta, old),
    "joined": lambda old, delta: tf.concat([old[1:] + delta[1:], delta[:1]], 0),
    "masked": lambda old, _: old * tf.to_float(tf.abs(old) > 0.1),
    "not negative": lambda old, delta: tf.nn.relu(old + delta),
    "of its own": lambda old, _: tf.nn.l2_normalize(old, 0),
}


def changed_weights(new, use_resource=False):
    """Weights and what is made of them; a layer reads it, and it is assigned."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            first, weights, second = (
                tf.get_variable(name, initializer=RANDOM.normal(size=(8, 8)).astype(np.float32))
                for name in ("first", "weights", "second")
            )
        x = tf.placeholder(tf.float32, [8, 8], "x")
        old = tf.identity(weights)
        delta = tf.matmul(tf.nn.relu(tf.matmul(x, first)), first, name="delta") * 0.01
        value = tf.identity(new(old, delta), "value")
        tf.matmul(tf.nn.relu(tf.matmul(x, value, name="layer")), second, name="y")
        tf.assign(weights, value, name="update")
        tf.identity(weights.read_value(), "kept")

    return built(build)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("new", NEW)
def test_a_layer_reads_what_is_written(new, use_resource):
    graph = changed_weights(NEW[new], use_resource)
    decided = decide(graph)
    assert "layer" in decided.half and decided.reasons["value"] == REASON
    with session(converted(graph)) as sess:
        feeds = placeholders(graph)
        old = sess.run("kept:0")
        sess.run("update", feeds)
        kept = sess.run("kept:0")
    assert (kept != old).any() and (kept != kept.astype(np.float16)).mean() > 0.3


def test_states_that_gates_of_a_skipped_step_write():
    """The gate's value is a Select or Merge of the new and the old state."""

    def build():
        x = tf.placeholder(tf.float32, [8, 8], "x")
        weights, target = (
            tf.get_variable(name, [8, 8], trainable=name == "weights")
            for name in ("weights", "target")
        )
        followed = tf.add(0.9 * target, 0.1 * weights, name="followed")
        wanted = tf.stop_gradient(tf.matmul(tf.matmul(x, followed, name="layer"), weights))
        loss = tf.nn.l2_loss(tf.matmul(x, weights) - wanted)
        with tf.control_dependencies([tf.train.AdamOptimizer(0.1).minimize(loss)]):
            tf.assign(target, followed, name="update")

    decided = decide(built(build), loss_scale="dynamic")
    assert "layer" in decided.half and decided.reasons["followed"] == REASON


def test_what_is_not_written_to_its_variable_stays_half():
    """A matmul, or gradient code, lies between the changed weights and the write."""

    def build():
        x = tf.placeholder(tf.float32, [8, 8], "x")
        weights = tf.get_variable("weights", [8, 8])
        changed = tf.add(weights, tf.matmul(x, weights), name="changed")
        y = tf.matmul(tf.matmul(x, changed), weights)
        tf.assign(tf.get_variable("shown", [8, 8], trainable=False), y)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.nn.l2_loss(y))

    assert "changed" in decide(built(build)).half


@pytest.mark.parametrize("where", ["function", "branch", "loop"])
@pytest.mark.parametrize("loss_scale", ["none", "dynamic"])
def test_a_step_in_a_function(where, loss_scale):
    """A function takes the handles of variables as arguments."""

    def build():
        x = tf.placeholder(tf.float32, [8, 8], "x")
        first, weights = (
            tf.get_variable(
                name,
                initializer=RANDOM.normal(size=(8, 8)).astype(np.float32),
                use_resource=True,
            )
            for name in ("first", "weights")
        )

        def step():
            read = first.read_value()
            value = weights.read_value() + 0.01 * tf.matmul(x, read)
            loss = tf.reduce_sum(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, read)), value)))
            (gradient,) = tf.gradients(loss, [read])
            writes = [weights.assign(value), first.assign_sub(1e-4 * gradient)]
            with tf.control_dependencies([write.op for write in writes]):
                return tf.constant(1)

        with control_flow(functions=True):
            if where == "function":
                tf.function(step)()
            elif where == "branch":
                tf.cond(x[0, 0] > -100.0, step, lambda: 0, name="train")
            else:
                tf.while_loop(lambda i: i < 1, lambda i: i + step(), [0], name="train")
        tf.group(*tf.get_default_graph().get_operations()[-1:], name="update")
        tf.identity(weights.read_value(), "kept")

    graph = built(build)
    with session(converted(graph, loss_scale=loss_scale)) as sess:
        feeds = placeholders(graph)
        old = sess.run("kept:0")
        sess.run("update", feeds)
        kept = sess.run("kept:0")
    assert (kept != old).any() and (kept != kept.astype(np.float16)).mean() > 0.3
