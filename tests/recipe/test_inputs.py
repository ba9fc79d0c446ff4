"""Arguments and results of build functions: structures, and dictionaries to be fed."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.recipe.inputs import flat, replaced

Pair = collections.namedtuple("Pair", ["loss", "rest"])


@pytest.fixture
def tensors():
    with tf.Graph().as_default():
        yield [tf.constant(float(number)) for number in range(3)]


@pytest.mark.unit
def test_tensors_that_are_keys_are_leaves(tensors):
    first, second, third = tensors
    given = Pair(first, [{second: np.ones(2), third: None}, {"b": 1, 0: 2}])
    leaves = flat(given)
    assert leaves[0] is first and leaves[1] is second and leaves[3] is third
    assert leaves[4:] == [None, 1, 2]
    assert replaced(given, leaves) is given
    new = replaced(given, [third, first, *leaves[2:4], 5, *leaves[5:]])
    assert type(new) is Pair and new.loss is third
    assert list(new.rest[0]) == [first, third] and new.rest[0][third] == 5
    assert new.rest[1] == {"b": 1, 0: 2} and given.loss is first


@pytest.mark.unit
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_dictionaries_keep_type_and_order(tensors, kind):
    first, second, third = tensors
    given = kind([("z", first), ("a", (second, [third]))])
    assert flat(given) == tensors
    new = replaced(given, tensors[::-1])
    assert type(new) is kind and list(new) == ["z", "a"]
    assert new["z"] is third and new["a"] == (second, [first])


def test_a_returned_feed_dict_feeds_the_callers_tensors():
    @graphmp.mixed_precision(loss_scale=8.0)
    def build(x, y):
        hidden = tf.layers.dense(x, 8, tf.nn.relu)
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(hidden, 1))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return loss, step, {x: np.ones((4, 8)), y: np.ones((4, 1))}

    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        x, y = (tf.placeholder(tf.float32, [None, size]) for size in (8, 1))
        loss, step, feed = build(x, y)
        assert list(feed) == [x, y]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, step], feed)[0] for _ in range(5)]
        assert "MatMul" in {
            op.type for op in graph.get_operations() if tf.float16 in [t.dtype for t in op.outputs]
        }
    assert losses[-1] < losses[0]
