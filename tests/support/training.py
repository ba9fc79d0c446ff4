"""Building a model twice, as it is and decorated, and training both from the same values on the same batches."""

from __future__ import annotations

import collections

import tensorflow.compat.v1 as tf

import graphmp
from graphmp.policy.policy import tensor_core_ops

Trained = collections.namedtuple("Trained", "losses variables graph before after")


def undecorated(function):
    return function


def train(model, decorate, batch, steps=4, start=None):
    """Builds a model in a graph of its own and trains it. Returns losses and all variables, by op name, before and after."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, train_op, placeholders = model(decorate)
        return run_steps(graph, [loss, train_op], dict(zip(placeholders, batch)), steps, start)


def train_rewritten(model, batch, steps=4, start=None, **options):
    """Builds a model, converts its graph as it stands, imports that into a graph of its own and trains it."""
    with tf.Graph().as_default() as built:
        tf.set_random_seed(1)
        loss, train_op, placeholders = model(undecorated)
        converted = graphmp.convert(built, **options)
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted.meta_graph)
        feed = {p.name: value for p, value in zip(placeholders, batch)}
        return run_steps(graph, [loss.name, train_op.name], feed, steps, start)


def run_steps(graph, fetches, feed, steps, start):
    """Trains a graph from given values."""
    with tf.Session(graph=graph) as sess:
        sess.run(tf.global_variables_initializer())
        load(sess, start or {})
        before = state(sess)
        losses = [float(sess.run(fetches, feed)[0]) for _ in range(steps)]
        return Trained(losses, variable_dtypes(graph), graph, before, state(sess))


def load(sess, values):
    """Gives variables the values that are there for them, in one run."""
    found = [variable for variable in tf.global_variables() if variable.op.name in values]
    given = {variable.initializer.inputs[1]: values[variable.op.name] for variable in found}
    sess.run([variable.initializer for variable in found], given)


def state(sess):
    """Values of all variables by op name."""
    return dict(zip([v.op.name for v in tf.global_variables()], sess.run(tf.global_variables())))


def variable_dtypes(graph):
    """Names and dtypes of the model's own variables."""
    variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    return {v.op.name: v.dtype.base_dtype.name for v in variables if not v.op.name.startswith("graphmp/")}


def tensor_core_dtypes(graph):
    """How many matmuls and convolutions compute in each dtype, forward and backward."""
    ops = [op for op in graph.get_operations() if op.type in tensor_core_ops()]
    return collections.Counter(op.get_attr("T").name for op in ops)
