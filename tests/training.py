"""Building a model twice, as it is and decorated, and training both from the same values on the same batches."""

from __future__ import annotations

import collections

import tensorflow.compat.v1 as tf

from graphmp.policy.policy import tensor_core_ops

Trained = collections.namedtuple("Trained", "losses variables graph before after")


def undecorated(function):
    return function


def train(model, decorate, batch, steps=4, start=None):
    """Builds a model in a graph of its own and trains it. Returns losses and all variables, by op name, before and after."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, train_op, placeholders = model(decorate)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            load(sess, start or {})
            before = state(sess)
            losses = [float(sess.run([loss, train_op], dict(zip(placeholders, batch)))[0]) for _ in range(steps)]
            return Trained(losses, variable_dtypes(graph), graph, before, state(sess))


def load(sess, values):
    """Gives variables the values that are there for them."""
    for variable in tf.global_variables():
        if variable.op.name in values:
            variable.load(values[variable.op.name], sess)


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
