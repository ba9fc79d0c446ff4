"""A model on several devices, with a tower on each, built and converted in every way."""

from __future__ import annotations

import collections
import contextlib
import functools
import re

import numpy as np
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.training import imported, load, state, undecorated

TWO = ("/cpu:0", "/cpu:1")
CONFIG = tf.ConfigProto(device_count={"CPU": 2})
STEPS, ROWS, WORDS, LENGTH = 5, 16, 20, 4
RANDOM = np.random.RandomState(0)
X = RANDOM.randn(ROWS, 12).astype(np.float32)
IDS = RANDOM.randint(WORDS, size=(ROWS, LENGTH)).astype(np.int32)
BATCH = (X, IDS, np.float32(X[:, :1] * 0.5 + IDS[:, :1] * 0.1))
START = {
    name: np.random.RandomState(1).randn(*shape).astype(np.float32) * 0.3
    for name, shape in (
        ("table", (WORDS, 8)),
        ("hidden/w", (12 + LENGTH * 8, 16)),
        ("hidden/b", (16,)),
        ("out/w", (16, 1)),
        ("out/b", (1,)),
    )
}
OPTIONS = {"loss_scale_initial": 1024.0}
OWN = re.compile(r"graphmp/loss_scale(_\d+)?/(scale|good_steps|skipped_steps)$")


def variable(name, shape):
    """A variable on the first device."""
    with tf.device(TWO[0]):
        return tf.get_variable(name, shape)


def tower_loss(x, ids, y, sparse):
    """The loss of a tower on its part of the batch; `sparse`: with a table lookup."""
    if sparse:
        x = tf.concat(
            [
                x,
                tf.reshape(
                    tf.nn.embedding_lookup(variable("table", [WORDS, 8]), ids), [-1, LENGTH * 8]
                ),
            ],
            1,
        )
    hidden = tf.nn.relu(
        tf.nn.bias_add(
            tf.matmul(x, variable("hidden/w", [x.shape[1], 16])), variable("hidden/b", [16])
        )
    )
    out = tf.nn.bias_add(tf.matmul(hidden, variable("out/w", [16, 1])), variable("out/b", [1]))
    return tf.reduce_mean(tf.square(out - y), name="loss")


def stacked(gradients):
    """The average of a variable's gradients, as in TensorFlow's CIFAR-10 tutorial.

    Sparse ones become dense.
    """
    return tf.reduce_mean(tf.concat([tf.expand_dims(g, 0) for g in gradients], 0), 0)


def added(gradients):
    """The sum of gradients divided by their number; for sparse ones, all rows."""
    if isinstance(gradients[0], tf.IndexedSlices):
        values = tf.concat([g.values for g in gradients], 0) / len(gradients)
        return tf.IndexedSlices(
            values, tf.concat([g.indices for g in gradients], 0), gradients[0].dense_shape
        )
    return tf.add_n(gradients) / len(gradients)


AVERAGES = {"stacked": stacked, "added": added, "summed_losses": None}
KINDS = {"dense-reference": (False, False), "sparse-resource": (True, True)}
WAYS = ["decorator", "decorated step", "session", "convert"]


def build(average, sparse=False, use_resource=False, decorate=undecorated, whole=False, towers=TWO):
    """The graph of a training step.

    Args:
        average: the average of a variable's gradients; None for the gradients of the sum of the
            losses.
        sparse: whether a table is looked up.
        use_resource: the kind of the variables.
        decorate: the decorator of the function of a tower's loss or, if `whole`, of the step.
        whole: see `decorate`.
        towers: their devices.

    Returns:
        The mean of the losses, the train op, and placeholders for the batch and for a factor of
        each tower's loss.
    """

    def step(x, ids, y, factors):
        optimizer = tf.train.MomentumOptimizer(0.02, 0.9)
        losses, gradients = [], []
        with tf.variable_scope(tf.get_variable_scope(), use_resource=use_resource):
            for number, part in enumerate(
                zip(*(tf.split(tensor, len(towers)) for tensor in (x, ids, y)))
            ):
                with tf.device(towers[number]), tf.name_scope("tower_%d" % number):
                    losses.append(
                        (undecorated if whole else decorate)(tower_loss)(*part, sparse)
                        * factors[number]
                    )
                    tf.get_variable_scope().reuse_variables()
                    if average is not None:
                        gradients.append(optimizer.compute_gradients(losses[-1]))
        loss = tf.reduce_mean(losses, name="mean_loss")
        with tf.device(TWO[0]):
            if average is None:
                pairs = optimizer.compute_gradients(loss, colocate_gradients_with_ops=True)
            else:
                pairs = [
                    (average([g for g, _ in of_one]), of_one[0][1]) for of_one in zip(*gradients)
                ]
            return loss, optimizer.apply_gradients(
                pairs, tf.train.get_or_create_global_step(), name="train"
            )

    x, y = tf.placeholder(tf.float32, [ROWS, 12], "x"), tf.placeholder(tf.float32, [ROWS, 1], "y")
    ids = tf.placeholder(tf.int32, [ROWS, LENGTH], "ids")
    factors = tf.placeholder_with_default(tf.ones([len(towers)]), [len(towers)], "factors")
    return (*(decorate if whole else undecorated)(step)(x, ids, y, factors), (x, ids, y, factors))


def build_gan(decorate=undecorated):
    """The same for the losses of a discriminator and a generator, each averaged over the towers.

    The first result is the batch's sum.
    """

    def net(x, name, width):
        return tf.matmul(
            tf.nn.relu(tf.matmul(x, variable(name + "/1", [12, 16]))),
            variable(name + "/2", [16, width]),
        )

    def losses(x, factor):
        fake = net(x, "G", 12)
        tf.get_variable_scope().reuse_variables()
        d_real, d_fake = net(x, "D", 1), net(fake, "D", 1)
        return tf.reduce_mean(tf.square(d_real - 1) + tf.square(d_fake)), tf.reduce_mean(
            tf.square(d_fake - 1)
        ) * factor

    x, factors, gradients = (
        tf.placeholder(tf.float32, [ROWS, 12], "x"),
        tf.placeholder(tf.float32, [2], "factors"),
        [],
    )
    optimizers = {name: tf.train.GradientDescentOptimizer(0.01) for name in "DG"}
    variable("D/1", [12, 16]), variable("D/2", [16, 1])
    for number, part in enumerate(tf.split(x, 2)):
        with tf.device(TWO[number]), tf.name_scope("tower_%d" % number):
            both = zip("DG", decorate(losses)(part, factors[number]))
            gradients.append(
                {
                    name: optimizers[name].compute_gradients(loss, tf.trainable_variables(name))
                    for name, loss in both
                }
            )
    with tf.device(TWO[0]):
        pairs = {
            name: [
                (stacked([g for g, _ in one]), one[0][1])
                for one in zip(*(tower[name] for tower in gradients))
            ]
            for name in "DG"
        }
        return (
            tf.reduce_sum(x),
            tf.group(*[optimizers[name].apply_gradients(pairs[name]) for name in "DG"]),
            (x, factors),
        )


Step = collections.namedtuple("Step", "graph loss train placeholders")


@functools.lru_cache(maxsize=None)
def step(way, model, **arguments):
    """The graph of a training step, converted in one way, and the names of fetches and feeds.

    The way `session` converts later, in its session. Built once: sessions add initialisers, but
    nothing that a step runs.
    """
    if way in ("decorator", "decorated step"):
        arguments["decorate"] = graphmp.mixed_precision(**OPTIONS)
    if way == "decorated step":
        arguments["whole"] = True
    with tf.Graph().as_default() as graph:
        loss, train, placeholders = model(**arguments)
        names = [loss.name, train.name, [placeholder.name for placeholder in placeholders]]
        if way != "convert":
            return Step(graph, *names)
        meta_graph = graphmp.convert(graph, **OPTIONS).meta_graph
    with tf.Graph().as_default() as graph:
        imported(meta_graph)
    return Step(graph, *names)


@contextlib.contextmanager
def session(made, way=None):
    """A session of two devices, with the values START of variables."""
    make, options = (graphmp.Session, OPTIONS) if way == "session" else (tf.Session, {})
    with made.graph.as_default(), make(graph=made.graph, config=CONFIG, **options) as sess:
        sess.run(tf.global_variables_initializer())
        load(
            sess,
            {
                v.op.name: START[v.op.name][: v.shape[0]]
                for v in tf.trainable_variables()
                if v.op.name in START
            },
        )
        yield sess


def losses_of(sess, made):
    feed = dict(zip(made.placeholders, BATCH))
    return [float(sess.run([made.loss, made.train], feed)[0]) for _ in range(STEPS)]


@functools.lru_cache(maxsize=None)
def expected(sparse, use_resource=False):
    """The losses on one device with the whole batch, in float32."""
    made = step(
        None, build, average=stacked, towers=TWO[:1], sparse=sparse, use_resource=use_resource
    )
    with session(made) as sess:
        return losses_of(sess, made)


def train():
    """Train towers, then take a step in which one of them overflows.

    Returns the losses, and whether that step left all variables unchanged.
    """
    made = step(None, build, average=added, sparse=True)
    with session(made) as sess:
        losses = losses_of(sess, made)
        before = sess.run(tf.trainable_variables())
        sess.run(made.train, dict(zip(made.placeholders, (*BATCH, [1.0, np.inf]))))
        return (
            *losses,
            all((a == b).all() for a, b in zip(before, sess.run(tf.trainable_variables()))),
        )


def state_of(sess):
    """Values of all variables by op name, including loss scales.

    The session's Python process has no Variable objects for those that it makes itself.
    """
    own = [
        op for op in sess.graph.get_operations() if op.type == "VariableV2" and OWN.search(op.name)
    ]
    return dict(state(sess), **{OWN.search(op.name).group(): sess.run(op.outputs[0]) for op in own})


def changed(before, after):
    return {name for name in before if before[name].tobytes() != after[name].tobytes()}
