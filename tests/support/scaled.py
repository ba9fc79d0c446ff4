"""Graphs built without graphmp, their sessions, and the variables that a step changes."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.models import IDS, TARGETS, VECTORS, two_layers
from tests.support.optimizers import OPTIMIZERS
from tests.support.training import AS_WRITTEN, imported, initialise, state
from tests.support.training_graphs import SHAPES

OWN = [
    "graphmp/loss_scale/good_steps",
    "graphmp/loss_scale/scale",
    "graphmp/loss_scale/skipped_steps",
]
GOOD = {"x:0": VECTORS, "ids:0": IDS, "y:0": TARGETS, "factor:0": 1.0}
BAD = dict(GOOD, **{"factor:0": np.inf})


@functools.lru_cache(maxsize=None)
def built(optimizer, sparse, use_resource):
    """A graph with a loss, its train op, and placeholders, of which `factor` multiplies the loss.

    It is built once; don't change it.
    """
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        x, ids = (
            tf.placeholder(tf.float32, (None, 12), "x"),
            tf.placeholder(tf.int32, (None, 4), "ids"),
        )
        y, factor = (
            tf.placeholder(tf.float32, (None, 1), "y"),
            tf.placeholder(tf.float32, (), "factor"),
        )
        step = tf.train.get_or_create_global_step()
        with tf.variable_scope("net", use_resource=use_resource):
            if sparse:
                x = tf.reshape(
                    tf.nn.embedding_lookup(tf.get_variable("table", [20, 8]), ids), [-1, 32]
                )
            loss = tf.multiply(tf.reduce_mean(tf.square(y - two_layers(x))), factor, name="loss")
            train = OPTIMIZERS[optimizer]().minimize(loss, global_step=step)
        tf.group(train, name="train")
        tf.global_variables_initializer()
        return graph


@functools.lru_cache(maxsize=None)
def shaped(name):
    """A graph of one of the common shapes of training code; built once, don't change it."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        SHAPES[name].build()
        tf.global_variables_initializer()
        return graph


def losses_of(meta_graph, **options):
    """The loss-scaling view of a graph, and its losses."""
    config = Config.make(**options)
    read = TrainingGraph(meta_graph, config, OpDefs(meta_graph))
    return read, find_losses(read, config)


@contextlib.contextmanager
def session(meta_graph, start=None, as_written=False):
    """A session of an imported graph, initialised by its own init op and the given values.

    `as_written` disables TensorFlow's graph optimisations.
    """
    with tf.Graph().as_default() as graph:
        imported(meta_graph)
        with tf.Session(graph=graph, config=AS_WRITTEN if as_written else None) as sess:
            initialise(sess, "init", start or {})
            yield sess


def changed(before, after):
    return sorted(name for name in before if before[name].tobytes() != after[name].tobytes())


def trained(meta_graph, steps=3, start=None, feed=GOOD, fetches="train", as_written=False):
    with session(meta_graph, start, as_written) as sess:
        before = state(sess)
        for _ in range(steps):
            sess.run(fetches, feed)
        return before, state(sess)
