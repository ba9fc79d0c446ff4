"""Random numbers drawn before the first training step: the clones go on where the originals are."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.session.live.live_graph import known_live_graph

ROWS = np.random.RandomState(0).randn(24, 8).astype(np.float32)


def build():
    """A regression with dropout, and draws whose amount depends on what was computed."""
    tf.set_random_seed(3)
    x = tf.placeholder(tf.float32, [None, 8], "x")
    hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [8, 64])))
    hidden = tf.nn.dropout(hidden, rate=0.5)
    out = tf.matmul(hidden, tf.get_variable("v", [64, 4]))
    noise = tf.random_normal(tf.shape(out), name="noise")
    with tf.control_dependencies([tf.assign_add(tf.get_variable("ran", [], tf.int32), 1)]):
        tf.identity(tf.random_uniform(tf.shape(out)), name="waits")
    tf.multinomial(0.0 * out, 2, name="chosen")
    loss = tf.reduce_mean(tf.square(out + 0.01 * noise - x[:, :4]), name="loss")
    tf.train.GradientDescentOptimizer(0.01).minimize(loss, name="train")
    tf.global_variables_initializer()


def drawn(make, **given):
    """The losses and noises of a script that evaluates before it trains, and the counter."""
    with tf.Graph().as_default():
        build()
        found = []
        with make(**given) as session:
            session.run("init")
            for rows in (3, 5, 5, 24):
                session.run(["loss:0", "chosen/Multinomial:0"], {"x:0": ROWS[:rows]})
            session.run("waits:0", {"x:0": ROWS})
            evaluate = session.make_callable("noise:0", ["x:0"])
            evaluate(ROWS[:7])
            for _ in range(3):
                fetches = ["loss:0", "noise:0", "chosen/Multinomial:0", "train"]
                found.append(session.run(fetches, {"x:0": ROWS})[:3])
            return found, session.run("ran:0")


@pytest.mark.parametrize("given", [{}, {"tune": True}], ids=["converted", "tuned"])
def test_the_first_training_step_draws_what_it_draws_without_a_conversion(given):
    expected, counted = drawn(tf.Session)
    found, ran = drawn(graphmp.Session, **given)
    assert ran == counted == 1, "a replay has no other effects"
    for (loss, noise, chosen), (half, same, equal) in zip(expected, found):
        np.testing.assert_array_equal(noise, same)
        np.testing.assert_array_equal(chosen, equal)
        assert half == pytest.approx(loss, rel=1e-2)


def test_equal_draws_are_kept_once():
    """A program that only evaluates doesn't grow."""
    with tf.Graph().as_default() as graph:
        build()
        with graphmp.Session() as session:
            session.run("init")
            for _ in range(5):
                for rows in (3, 4):
                    batch = np.random.randn(rows, 8)
                    session.run(["chosen/Multinomial:0", "loss:0"], {"x:0": batch})
            live = known_live_graph(graph)
            counts = live._earlier_draws._counts[session]
            assert [times for times, _ in counts.values()] == [5, 5]
            session.run("train", {"x:0": ROWS})
            assert not live._earlier_draws._counts
