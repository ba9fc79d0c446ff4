"""Clones of nodes: the functions that they call come along, with their registered gradients."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.edit.cloning import changed_functions, cloned, remove_copies
from graphmp.graph.structure.view import GraphView

_FUNCTION = importlib.import_module("tensorflow.python.framework.function")
X = np.linspace(-1, 1, 64).reshape(8, 8).astype(np.float32)


def build():
    """A training step with a function whose gradient is registered, and not its derivative."""

    @_FUNCTION.Defun(tf.float32, tf.float32, tf.float32, func_name="backward")
    def backward(x, w, dy):
        return 0.5 * tf.matmul(dy, w, transpose_b=True), 3 * tf.matmul(x, dy, transpose_a=True)

    @_FUNCTION.Defun(tf.float32, tf.float32, func_name="layer", grad_func=backward)
    def layer(x, w):
        return tf.matmul(x, w)

    first, second = (
        tf.get_variable(name, [8, 8], initializer=tf.ones_initializer(), use_resource=False)
        for name in ("first", "second")
    )
    out = layer(tf.matmul(tf.constant(X), first), tf.identity(second))
    out.set_shape([8, 8])
    return tf.reduce_mean(tf.square(out - 1))


def values_after(session_type):
    """The variables after a step, and after one of another optimizer that comes late."""
    with tf.Graph().as_default():
        loss = build()
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        with session_type() as session:
            session.run(tf.global_variables_initializer())
            session.run(step)
            once = session.run(tf.trainable_variables())
            session.run(tf.train.GradientDescentOptimizer(0.02).minimize(loss))
            return once + session.run(tf.trainable_variables())


def test_a_clone_has_the_registered_gradient_of_its_original():
    for found, expected in zip(values_after(graphmp.Session), values_after(tf.Session)):
        np.testing.assert_allclose(found, expected, rtol=1e-2)


def library(*names, **gradients):
    """A graph of functions without nodes, and the registered gradients of some."""
    graph_def = tf.GraphDef()
    for name in names:
        graph_def.library.function.add().signature.name = name
    for name, gradient in gradients.items():
        graph_def.library.gradient.add(function_name=name, gradient_func=gradient)
    return graph_def


@pytest.mark.unit
def test_a_function_whose_gradient_changed_is_copied_with_it():
    before = library("f", "g", "other", f="g", gone="g", other="gone")
    after = tf.GraphDef.FromString(before.SerializeToString())
    after.library.function[1].node_def.add(name="new", op="NoOp")
    assert changed_functions(before, after) == {"f", "g"}
    found = cloned(GraphView(after), before, {}, "clones").library
    assert {f.signature.name for f in found.function} == {"f_graphmp", "g_graphmp"}
    assert [(row.function_name, row.gradient_func) for row in found.gradient] == [
        ("f_graphmp", "g_graphmp")
    ]


@pytest.mark.unit
def test_a_gradient_that_did_not_change_is_copied_with_its_function():
    before = library("f", "g", f="g")
    after = tf.GraphDef.FromString(before.SerializeToString())
    after.library.function[0].node_def.add(name="new", op="NoOp")
    found = cloned(GraphView(after), before, {}, "clones")
    assert len(found.library.function) == 2 and len(found.library.gradient) == 1
    found.library.MergeFrom(before.library)
    remove_copies(found.library)
    assert found.library == before.library
