"""While and cond contexts list inserted nodes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.contexts import Contexts
from tests.support import painting
from tests.support.painting import built, converted, inserted, nodes, verified
from tests.support.structure import EYE, _cond, _loop


def _loop_in_cond():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)

    def loop():
        return tf.while_loop(
            lambda i, y: i < 2, lambda i, y: (i + 1, tf.exp(tf.matmul(y, w)) * 0.1), [0, x]
        )[1]

    tf.reduce_sum(tf.cond(tf.reduce_sum(x) > -1e3, loop, lambda: tf.matmul(x, w)), name="loss")


def _cond_in_loop():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)

    def body(i, y):
        return i + 1, tf.cond(
            i > 0, lambda: tf.exp(tf.matmul(y, w)) * 0.1, lambda: tf.nn.relu(tf.matmul(y, w))
        )

    tf.reduce_sum(tf.while_loop(lambda i, y: i < 3, body, [0, x])[1], name="loss")


def _gradient_after_import(meta_graph, feed):
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.train.import_meta_graph(painting.copy_of(meta_graph))
        loss = tf.get_default_graph().get_tensor_by_name("loss:0")
        gradient = tf.gradients(loss, tf.trainable_variables()[0])[0]
        sess.run(tf.global_variables_initializer())
        return sess.run([loss, gradient], {"x:0": feed})


@pytest.mark.parametrize(
    "build", [_loop, _cond, _loop_in_cond, _cond_in_loop], ids=lambda build: build.__name__
)
def test_gradients_can_be_taken_of_an_imported_conversion(build):
    before = built(build)
    after = verified(before, ["loss:0"])
    feed = np.random.RandomState(1).uniform(0.1, 0.5, [4, 4])
    for expected, found in zip(
        _gradient_after_import(before, feed), _gradient_after_import(after, feed)
    ):
        np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())


@pytest.mark.unit
@pytest.mark.parametrize(
    "build", [_loop, _cond, _loop_in_cond, _cond_in_loop], ids=lambda build: build.__name__
)
def test_contexts_list_what_is_put_into_them(build):
    before = built(build)
    after = converted(before)
    listed = Contexts(after)._of
    for name, node in inserted(before, after).items():
        if node.op == "Enter":
            assert name in listed
        for text in node.input:
            source = nodes(after)[text.lstrip("^").split(":")[0]]
            if source.name in listed and source.op not in ("Exit", "Merge"):
                assert name in listed, name
