"""Gradients that end in what isn't linear in the loss: it reads them unscaled, and keeps its value."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.painting import built
from tests.support.proved import open_claims

ENDS = {
    "tanh": tf.tanh,
    "sign": tf.sign,
    "norm": lambda g: g / tf.norm(g),
    "sum": lambda g: g + 0.01,
    "floor": lambda g: tf.floor(g * 10) / 10,
    "chain": lambda g: tf.identity(tf.identity(tf.tanh(g))),
    "linear": lambda g: 3.0 * g,
}


def training(end, fetch=False):
    """A matmul whose own gradient ends in a function of the gradient of its weights."""

    @tf.custom_gradient
    def product(x, w):
        def gradient(dy):
            return tf.matmul(dy, w, transpose_b=True), ENDS[end](tf.matmul(x, dy, transpose_a=True))

        return tf.matmul(x, w), gradient

    x = tf.placeholder(tf.float32, [4, 8], "x")
    first, last = (
        tf.get_variable(name, [8, 8], initializer=tf.glorot_uniform_initializer(seed))
        for seed, name in enumerate(("first", "last"))
    )
    loss = tf.reduce_mean(tf.square(product(tf.matmul(x, first), last) - 1))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    gradients = optimizer.compute_gradients(loss)
    if fetch:
        tf.add_to_collection("fetched", gradients[1][0])
    optimizer.apply_gradients(gradients, name="train")
    tf.global_variables_initializer()


def trained(meta_graph, fetches=()):
    """The changes of the variables in three steps, and fetched values at the start."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta_graph)
        session.run("init")
        variables = tf.trainable_variables()
        before = session.run(variables)
        feeds = [{"x:0": np.random.RandomState(step).randn(4, 8)} for step in range(3)]
        fetched = session.run(list(fetches), feeds[0])
        for feed in feeds:
            session.run("train", feed)
        changes = [b - a for a, b in zip(before, session.run(variables))]
        return [*changes, *fetched]


@pytest.mark.parametrize(
    "options", [{"loss_scale": 8.0}, {}, {"loss_scale": 8.0, "clip_norm": 9.0}]
)
@pytest.mark.parametrize("end", sorted(ENDS))
def test_the_update_takes_the_value_of_float32(end, options):
    original = built(lambda: training(end))
    converted = graphmp.convert(original, compute_dtype="float16", **options).meta_graph
    for found, wanted in zip(trained(converted), trained(original)):
        np.testing.assert_allclose(found, wanted, atol=0.06 * np.abs(wanted).max())
    assert not open_claims(original, converted)


@pytest.mark.parametrize("end", ["tanh", "linear"])
def test_a_fetched_gradient_keeps_its_value(end):
    original = built(lambda: training(end, fetch=True))
    name = original.collection_def["fetched"].node_list.value[0]
    converted = graphmp.convert(original, compute_dtype="float16", loss_scale=8.0).meta_graph
    found, wanted = trained(converted, [name])[-1], trained(original, [name])[-1]
    np.testing.assert_allclose(found, wanted, atol=0.01 * np.abs(wanted).max())
