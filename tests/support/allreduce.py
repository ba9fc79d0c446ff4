"""A stand-in for Horovod: an optimizer that averages gradients by TensorFlow's own collectives.

It has the processes that train with it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.control_flow import control_flow
from tests.support.training import imported, load, undecorated

NEWEST = tf.__version__ > "2"
PROCESSES, ROWS, STEPS = 2, 16, 6
X = np.random.RandomState(0).randn(ROWS, 12).astype(np.float32)
SHAPES = {"hidden/kernel": (12, 16), "hidden/bias": (16,), "out/kernel": (16, 1), "out/bias": (1,)}
START = {
    name: np.random.RandomState(1).randn(*shape).astype(np.float32) * 0.3
    for name, shape in SHAPES.items()
}
LEADER = "/job:worker/replica:0/task:0"
OP = "CollectiveReduce"


class AllReduceOptimizer(tf.train.Optimizer):
    """An optimizer that averages the gradients of another one over all processes.

    The other one applies them.
    """

    def __init__(self, optimizer, processes=1, first_key=0, conditional=False, before=tf.identity):
        """Wrap an optimizer.

        Args:
            optimizer: the other one.
            processes: the number of processes.
            first_key: the first key of its all-reduces; no other all-reduce uses this or a
                following one.
            conditional: whether a conditional asks if there are several, as Horovod's does.
            before: is applied to each gradient before averaging.
        """
        super().__init__(False, "AllReduce")
        self._optimizer, self._processes, self._first_key = optimizer, processes, first_key
        self._conditional, self._before = conditional, before

    def compute_gradients(self, *args, **kwargs):
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        with tf.name_scope("AllReduce"):
            return [
                (
                    tf.cast(
                        self._averaged(self._before(tf.convert_to_tensor(g)), key),
                        v.dtype.base_dtype,
                    ),
                    v,
                )
                for key, (g, v) in enumerate(pairs, self._first_key)
            ]

    def apply_gradients(self, *args, **kwargs):
        return self._optimizer.apply_gradients(*args, **kwargs)

    def _averaged(self, gradient, key):
        def average():
            keys = {"group_size": self._processes, "group_key": 1, "instance_key": key}
            summed = tf.raw_ops.CollectiveReduce(
                input=gradient, merge_op="Add", final_op="Id", subdiv_offsets=[0], **keys
            )
            return summed / tf.cast(self._processes, gradient.dtype)

        return (
            tf.cond(tf.constant(True), average, lambda: gradient)
            if self._conditional
            else average()
        )


def loss_of(x, y, factor):
    hidden = tf.layers.dense(x, 16, tf.nn.relu, name="hidden")
    return tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1, name="out") - y)) * factor


def build(way, wrap):
    """A training step. Returns the loss and the train op.

    Args:
        way: `around_loss` decorates the function of the loss, `around_all` one that makes the train
            op too; others decorate nothing.
        wrap: makes an optimizer from another one.
    """

    def both(x, y, factor):
        loss = (graphmp.mixed_precision if way == "around_loss" else undecorated)(loss_of)(
            x, y, factor
        )
        return loss, wrap(tf.train.MomentumOptimizer(0.05, 0.9)).minimize(
            loss, tf.train.get_or_create_global_step()
        )

    x, y = tf.placeholder(tf.float32, [None, 12], "x"), tf.placeholder(tf.float32, [None, 1], "y")
    return (graphmp.mixed_precision if way == "around_all" else undecorated)(both)(
        x, y, tf.placeholder(tf.float32, (), "factor")
    )


OPTIONS = {"convert": {"engine": "rewrite"}, "in_half": {"allreduce_half": True}}


def converted(way, wrap, asked=""):
    """A graph with a training step, and the names of its loss and train op.

    It is converted by `graphmp.convert` if `way` is one of OPTIONS.

    Args:
        way: as for `build`.
        wrap: likewise.
        asked: how the optimizer asks whether there are several processes: by a `conditional`, by
            one made of `functions`, or not at all if empty.
    """
    conditionals = (
        control_flow(functions=True) if asked == "functions" else contextlib.nullcontext()
    )
    with tf.Graph().as_default() as graph, conditionals:
        names = [
            each.name
            for each in build(way, functools.partial(wrap, conditional=True) if asked else wrap)
        ]
        meta_graph = graphmp.convert(graph, **OPTIONS[way]).meta_graph if way in OPTIONS else None
    if meta_graph is not None:
        with tf.Graph().as_default() as graph:
            imported(meta_graph)
    return graph, names


def train(way, wrap, x, bad_factor=np.inf, **session):
    """Train a few steps, then one with the loss multiplied by `bad_factor`, then another good one.

    Returns:
        The losses, the loss scale before and after the bad step, whether the bad step changed
        anything else and the last one did, and all variables.
    """
    way, _, asked = way.partition("+")
    graph, (loss, train_op) = converted(way, wrap, asked)
    feed = {"x:0": x, "y:0": x[:, :1] * 0.5, "factor:0": 1.0}
    sess = (graphmp.Session if way == "session" else tf.Session)(graph=graph, **session)
    with graph.as_default():
        sess.run(tf.global_variables_initializer())
        load(sess, START)
        losses = [float(sess.run([loss, train_op], feed)[0]) for _ in range(STEPS)]
        states = [state_of(sess)]
        for factor in (bad_factor, 1.0):
            sess.run(train_op, dict(feed, **{"factor:0": factor}))
            states.append(state_of(sess))
    scales = [state.pop("scale", 0.0) for state in states]
    return {
        "losses": losses,
        "scales": scales[:2],
        "changed": [a != b for a, b in zip(states, states[1:])],
        "state": states[-1],
    }


def state_of(sess):
    """Values of the model's variables, and of the loss scale."""
    names = {op.name for op in sess.graph.get_operations()}
    own = {"scale": "graphmp/loss_scale/scale:0"} if "graphmp/loss_scale/scale" in names else {}
    model = {v.op.name: v for v in tf.global_variables() if not v.op.name.startswith("graphmp/")}
    return {name: value.tolist() for name, value in sess.run(dict(model, **own)).items()}


def results(ways, task, wrap, **session):
    """Train in several ways on a process's part of the batch; the loss of process 1 overflows.

    Yields the results of each way, as JSON.

    Args:
        ways: as for `train`.
        task: the number of the process.
        wrap: for the number of a way, the function that makes an optimizer from another one.
        session: arguments of tf.Session.
    """
    if NEWEST:
        tf.disable_v2_behavior()
    for number, way in enumerate(ways):
        yield json.dumps(
            [way, train(way, wrap(number), X[task::PROCESSES], np.inf if task else 1.0, **session)]
        )


def process():
    """The same with this file's own optimizer, in a process of a cluster."""
    role = json.loads(os.environ["TF_CONFIG"])
    task = role["task"]["index"]
    config = tf.ConfigProto(
        device_filters=["/job:worker/task:%d" % task], isolate_session_state=True
    )
    config.experimental.collective_group_leader = LEADER
    server = tf.train.Server(tf.train.ClusterSpec(role["cluster"]), "worker", task, config=config)
    wrap = functools.partial(AllReduceOptimizer, processes=PROCESSES)
    yield from results(
        sys.argv[1:],
        task,
        lambda number: functools.partial(wrap, first_key=100 * number),
        target=server.target,
        config=config,
    )
    pathlib.Path("done%d" % task).write_text("")
    while not task and not pathlib.Path("done1").exists():  # the leader ends last
        time.sleep(0.05)
