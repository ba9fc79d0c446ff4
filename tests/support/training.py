"""Training of plain and decorated models from the same values on the same batches."""

from __future__ import annotations

import collections
import functools
import importlib

import tensorflow.compat.v1 as tf

import graphmp
from graphmp.policy.policy import tensor_core_ops
from tests.support.models import MODELS, batch_for

Trained = collections.namedtuple("Trained", "losses variables graph before after fetches feed")


def undecorated(function):
    return function


def train(model, decorate, batch, steps=4, start=None):
    """Build a model in a new graph and train it.

    Returns losses and all variables, by op name, before and after.
    """
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, train_op, placeholders = model(decorate)
        return run_steps(graph, [loss, train_op], dict(zip(placeholders, batch)), steps, start)


AS_WRITTEN = (
    tf.ConfigProto()
)  # graphs run without TensorFlow's optimisations, which take most of a short session's time
AS_WRITTEN.graph_options.rewrite_options.disable_meta_optimizer = True


@functools.lru_cache(maxsize=None)
def original(name, steps=4):
    """One of MODELS, undecorated and trained; run once per process, don't change it."""
    return train(MODELS[name], undecorated, batch_for(name), steps)


def imported(meta_graph):
    """Import a graph without the Saver that tf.train.import_meta_graph makes."""
    importlib.import_module("tensorflow.python.framework.meta_graph").import_scoped_meta_graph(
        meta_graph
    )


def rewritten(original, steps=4, session=None, **options):
    """Convert the graph of a trained model, import it, and train it from the same values.

    `session` is the session's config.
    """
    converted = graphmp.convert(original.graph, **options)
    with tf.Graph().as_default() as graph:
        imported(converted.meta_graph)
        return run_steps(graph, original.fetches, original.feed, steps, original.before, session)


def train_rewritten(model, batch, steps=4, start=None, **options):
    """Build a model, convert its untrained graph, import it, and train it."""
    with tf.Graph().as_default() as built:
        tf.set_random_seed(1)
        loss, train_op, placeholders = model(undecorated)
        converted = graphmp.convert(built, **options)
    with tf.Graph().as_default() as graph:
        imported(converted.meta_graph)
        feed = {p.name: value for p, value in zip(placeholders, batch)}
        return run_steps(graph, [loss.name, train_op.name], feed, steps, start)


def run_steps(graph, fetches, feed, steps, start, config=None):
    """Train a graph from given values."""
    with tf.Session(graph=graph, config=config) as sess:
        initialise(sess, tf.global_variables_initializer(), start or {})
        before = state(sess)
        losses = [float(sess.run(fetches, feed)[0]) for _ in range(steps)]
        names = (
            [getattr(fetch, "name", fetch) for fetch in fetches],
            {getattr(key, "name", key): value for key, value in feed.items()},
        )
        return Trained(losses, variable_dtypes(graph), graph, before, state(sess), *names)


def initialise(sess, init, values):
    """Run an init op, with given values for variables in place of its own."""
    sess.run(init, _fed(values)[1])


def load(sess, values):
    """Assign values to variables."""
    sess.run(*_fed(values))


def _fed(values):
    """Initializers of the variables with given values, and these as feeds.

    One run sets all; Variable.load takes one run each.
    """
    variables = [v for v in tf.global_variables() if v.op.name in values]
    feed = {v.initializer.inputs[1].name: values[v.op.name] for v in variables}
    assert len(feed) == len(variables)  # no initial value is shared by two variables
    return [v.initializer for v in variables], feed


def state(sess):
    """Values of all variables by op name."""
    return dict(zip([v.op.name for v in tf.global_variables()], sess.run(tf.global_variables())))


def variable_dtypes(graph):
    """Names and dtypes of the model's own variables."""
    variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    return {
        v.op.name: v.dtype.base_dtype.name
        for v in variables
        if not v.op.name.startswith("graphmp/")
    }


def tensor_core_dtypes(graph):
    """The number of matmuls and convolutions by dtype, forward and backward."""
    ops = [op for op in graph.get_operations() if op.type in tensor_core_ops()]
    return collections.Counter(op.get_attr("T").name for op in ops)
