"""Counts computed from static shapes."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView
from graphmp.rewrite.range_guard import counts
from graphmp.rewrite.range_guard.counts import count

pytestmark = pytest.mark.unit


def counted(build):
    with tf.Graph().as_default():
        tf.cast(build(), tf.float32, name="count")
        return count(GraphView(tf.train.export_meta_graph().graph_def), "count")


def test_a_value_that_is_read_twice_is_computed_once(monkeypatch):
    calls = []
    monkeypatch.setitem(counts._OPS, "Sub", lambda x, y: calls.append(1) or x + y)

    def build():
        number = tf.size(tf.zeros([3, 4]))
        for _ in range(16):
            number = tf.subtract(number, number)
        return number

    assert counted(build) == 12 * 2**16
    assert len(calls) == 2 * 16


@pytest.mark.parametrize("limit, found", [(6, 15), (10**12, None)])
def test_a_range_is_evaluated_only_if_it_is_short(limit, found):
    def build():
        ends = (tf.constant(end, tf.int64) for end in (0, limit, 1))
        return tf.reduce_prod(tf.range(*ends) + 1, [0]) // 48

    assert counted(build) == found
