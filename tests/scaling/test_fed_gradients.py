"""Gradients that are fetched, processed in Python and fed back.

They are fetched unscaled, whatever else reads them.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.graph.structure.gradient_record import valid
from graphmp.scaling.losses import fed_gradients, training_graph
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.gradient_calls import noted
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.loss_scaling import FEED
from tests.support.painting import built
from tests.support.scaled import losses_of, session
from tests.support.training import state
from tests.support.training_graphs import net, sgd, square, vectors


def of_one_use(w):
    return tf.matmul(vectors(), tf.tanh(w))


def of_two_uses(w):
    """Its gradient is a sum at the end of gradient code."""
    return tf.matmul(tf.tanh(tf.matmul(vectors(), w)), w)


@pytest.mark.parametrize(
    "result, shown", [(of_one_use, False), (of_one_use, True), (of_two_uses, False)]
)
def test_a_fetched_gradient_has_its_value(result, shown):
    def build():
        w = tf.get_variable("w", (12, 12))
        (gradient,) = tf.gradients(square(result(w)), [w])
        tf.add_to_collection("names", gradient.name)
        if shown:
            tf.summary.histogram("gradient", gradient)
        sgd().apply_gradients([(tf.placeholder(tf.float32, w.shape), w)])
        tf.global_variables_initializer()

    meta_graph = built(build)
    (name,) = meta_graph.collection_def["names"].bytes_list.value
    with session(meta_graph) as sess:
        start, expected = state(sess), sess.run(name.decode(), FEED)
    converted = graphmp.convert(meta_graph, loss_scale_initial=64.0, compute_dtype="float32")
    assert len(converted.report["losses"]) == 1
    with session(converted.meta_graph, start) as sess:
        np.testing.assert_allclose(sess.run(name.decode(), FEED), expected, rtol=1e-6, atol=1e-9)


def test_of_a_product_of_two_weights_the_one_that_is_fed_back_counts():
    """They have different shapes: so do their gradients."""

    def build():
        a, b = tf.get_variable("a", (4, 3)), tf.get_variable("b", (3, 2))
        gradients = tf.gradients(square(tf.matmul(a, b)), [a, b])
        tf.add_to_collection("names", gradients[1].name)
        sgd().apply_gradients([(tf.placeholder(tf.float32, b.shape), b)])

    meta_graph = built(build)
    (name,) = meta_graph.collection_def["names"].bytes_list.value
    (loss,) = losses_of(meta_graph)[1]
    assert [str(port) + ":0" for port in loss.gradients] == [name.decode()]


@pytest.mark.unit
def test_a_gradient_of_unknown_rank_is_not_a_scalars():
    """Of two results the one of the variable's shape counts."""

    def build():
        scale, x = tf.get_variable("scale", ()), tf.placeholder(tf.float32)
        gradients = tf.gradients(square(scale * x), [scale, x])
        tf.add_to_collection("names", gradients[0].name)
        sgd().apply_gradients([(tf.placeholder(tf.float32, ()), scale)])

    meta_graph = built(build)
    (name,) = meta_graph.collection_def["names"].bytes_list.value
    (loss,) = losses_of(meta_graph)[1]
    assert [str(port) + ":0" for port in loss.gradients] == [name.decode()]


@pytest.mark.unit
def test_the_shapes_of_gradients_are_inferred_once(monkeypatch):
    def build():
        w = tf.get_variable("w", (12, 1))
        for _ in range(3):
            tf.gradients(square(tf.matmul(vectors(), w)), w)
        sgd().apply_gradients([(tf.placeholder(tf.float32, w.shape), w)])

    calls = []
    for module in (fed_gradients, training_graph):
        monkeypatch.setattr(
            module, "inferred_shapes", lambda graph: calls.append(1) or {}, raising=False
        )
    losses_of(built(build))
    assert len(calls) == 1


@pytest.mark.unit
def test_gradients_of_other_shapes_than_those_fed_are_left_alone():
    """They are only looked at."""

    def build():
        shared, own = (tf.get_variable(name, (12, 1)) for name in ("shared", "own"))
        other = tf.get_variable("other", (12, 5))
        for w in (own, other):
            tf.gradients(square(tf.matmul(vectors(), w)), w)
        sgd().apply_gradients([(tf.placeholder(tf.float32, shared.shape), shared)])

    _, (loss,) = losses_of(built(build))
    assert [scope.scope for scope in loss.scopes] == ["gradients"]


@pytest.mark.unit
def test_of_the_gradients_on_record_those_of_the_fed_variable_count(graph):
    """Not those by the input of the model."""
    x, w = vectors(), tf.get_variable("w", (12, 12))
    gradients = tf.gradients(square(tf.matmul(x, tf.tanh(w))), [x, w])
    sgd().apply_gradients([(tf.placeholder(tf.float32, w.shape), w)])
    (loss,) = graphmp.convert(graph).report["losses"]
    assert loss["gradients"] == [gradients[1].op.name]


@pytest.mark.unit
def test_of_recorded_gradients_those_by_an_input_belong_to_no_variable():
    """They are taken beside those that are fed to another copy's update."""
    with tf.Graph().as_default() as graph:
        x = vectors()
        net(x, "shared")
        shared = tf.trainable_variables()
        loss = square(net(x, "worker"))
        tf.gradients(loss, [x, *tf.trainable_variables("worker")])
        fed = [tf.placeholder(tf.float32, v.shape) for v in shared]
        sgd().apply_gradients(zip(fed, shared), name="train")
    meta_graph = tf.train.export_meta_graph(graph=graph)
    calls = valid(noted(graph), meta_graph.graph_def.node)
    read = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph), calls)
    (found,) = find_losses(read, Config.make())
    assert calls and len(found.gradients) == len(shared)
