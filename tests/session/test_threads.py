"""Training in several threads of one session, each with a loss of its own."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.session.live.live_graph import known_live_graph

WORKERS, STEPS = 8, 3


@pytest.fixture
def impatient():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_threads_add_nodes_one_at_a_time_and_all_their_steps_count(graph, impatient):
    x = tf.placeholder(tf.float32, [None, 16])
    work = []
    for number in range(WORKERS):
        with tf.variable_scope("worker%d" % number):
            hidden = tf.layers.dense(tf.layers.dense(x, 16, tf.nn.relu), 16)
            loss = tf.reduce_mean(tf.square(hidden - 1))
            train = tf.train.AdamOptimizer(1e-3).minimize(loss)
            rows = [tf.summary.scalar("shown%d" % row, loss) for row in range(8)]
            work.append([loss, train, tf.summary.merge(rows)])
    feed, failures, ready = {x: np.ones([8, 16])}, [], threading.Barrier(WORKERS)
    with graphmp.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(work[0][1], feed)

        def trained(fetches):
            try:
                ready.wait()
                for _ in range(STEPS):
                    session.run(fetches, feed)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=trained, args=(each,)) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    live = known_live_graph(graph)
    assert (live.steps, live.updates) == (1 + WORKERS * STEPS,) * 2
