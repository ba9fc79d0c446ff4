"""Sessions with a time limit: what waits or loops without end is one error."""

import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.session.steps.limited import LimitedSession
from graphmp.time_limit import limited_runs


def waits():
    return tf.FIFOQueue(1, tf.float32, shapes=[[]]).dequeue()


def loops():
    return tf.while_loop(lambda i: i > 0.0, lambda i: i + 1.0, [tf.constant(1.0)])


@pytest.mark.parametrize("build", [waits, loops])
def test_a_run_without_end_is_given_up(build):
    with tf.Graph().as_default() as graph:
        endless, ends = build(), tf.constant(3.0)
    with limited_runs(0.2, ends_process=False):
        session = LimitedSession(graph, tf.ConfigProto())
    with session, pytest.raises(GraphmpError, match=r"GMP030: .* within 0\.2 s: .*timeout"):
        session.run(endless)
    with limited_runs(30.0, ends_process=False), LimitedSession(graph, tf.ConfigProto()) as session:
        assert session.run(ends) == 3.0


def test_without_a_limit_it_is_a_plain_session():
    with tf.Graph().as_default() as graph:
        value = tf.constant(2.0)
    with LimitedSession(graph, tf.ConfigProto(operation_timeout_in_ms=70)) as session:
        assert session.run(value) == 2.0
        assert session._config.operation_timeout_in_ms == 70
