"""The listeners.

Each is there once, however often it is installed, and out of the way of everything else.
"""

from __future__ import annotations

import types

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.recipe import decorator
from graphmp.tf_hooks import gradients, internals, op_creation, optimizers, patch, sessions


def depth(function):
    """How many wrappers are around a function."""
    return 0 if not hasattr(function, "__wrapped__") else 1 + depth(function.__wrapped__)


def places():
    owner, _ = internals.op_creation()
    session = internals.base_session()
    doors = [
        session.run,
        session.partial_run,
        session.make_callable,
        session._make_callable_from_options,
    ]
    return [
        owner._apply_op_helper,
        internals.gradients_util()._GradientsHelper,
        tf.train.Optimizer.apply_gradients,
    ] + doors


def build_once():
    with tf.Graph().as_default():
        return graphmp.mixed_precision(lambda x: tf.layers.dense(x, 1))(tf.zeros([2, 3]))


@pytest.mark.unit
def test_installing_again_wraps_once():
    build_once()
    before = [depth(place) for place in places()]
    for _ in range(3):
        decorator.install()
        build_once()
    assert [depth(place) for place in places()] == before and min(before) > 0


@pytest.mark.unit
def test_wrap_keeps_name_and_docstring_and_passes_arguments_on():
    class Owner:
        def method(self, a, b=2):
            """Says."""
            return a, b

    patch.wrap(
        Owner,
        "method",
        lambda original, self, *args, **kwargs: ("wrapped",) + original(self, *args, **kwargs),
    )
    assert Owner.method.__name__ == "method" and Owner.method.__doc__ == "Says."
    assert Owner().method(1, b=3) == ("wrapped", 1, 3)


def test_a_session_is_heard_through_every_door(graph):
    heard = []

    def listener(session, fetches):
        if session.graph is graph:
            heard.append(fetches)

    sessions.install(listener)
    one = tf.constant(1, name="one")
    with tf.Session() as sess:
        sess.run(one)
        run = sess.make_callable(one)
        assert heard == [one]
        assert run() == 1
        assert heard == [one, one]


@pytest.mark.unit
def test_gradients_and_ops_are_heard(graph):
    ops, taken = [], []

    def on_op(creation):
        if tf.get_default_graph() is graph:
            ops.append(creation.op_type)

    def on_gradients(original, ys, xs, *args, **kwargs):
        if tf.get_default_graph() is graph:
            taken.append(xs)
        return original(ys, xs, *args, **kwargs)

    op_creation.install(on_op)
    gradients.install(on_gradients)
    x = tf.constant(2.0)
    tf.gradients(tf.square(x), x)
    assert "Square" in ops and taken in ([[x]], [x])


@pytest.mark.unit
def test_an_optimizer_that_holds_another_delegates():
    inner = tf.train.AdamOptimizer(0.1)
    assert not optimizers.delegates(inner)
    assert optimizers.delegates(tf.train.SyncReplicasOptimizer(inner, replicas_to_aggregate=1))


@pytest.mark.parametrize("shuts_down", [False, True])
def test_nothing_listens_to_a_session_that_is_closed_while_python_shuts_down(
    monkeypatch, shuts_down
):
    heard = []
    monkeypatch.setattr(internals.base_session(), "close", internals.base_session().close)
    sessions.before_close(lambda session: heard.append(session.graph.version))
    session = tf.Session(graph=tf.Graph())
    monkeypatch.setattr(sessions, "sys", types.SimpleNamespace(is_finalizing=lambda: shuts_down))
    session.close()
    assert heard == ([] if shuts_down else [0])
    assert session._closed
