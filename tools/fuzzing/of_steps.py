"""The family of graphs that don't run, or never end, for the commands that run graphs."""

from __future__ import annotations

import functools
import random
from typing import Any, List

import tensorflow.compat.v1 as tf

from fuzzing import seeds
from fuzzing.changes import CHANGES
from fuzzing.forms import stored
from fuzzing.runner import Case
from graphmp.graph.io.messages import serialize

_PROCESSOR = 60  # seconds: bench and tune time steps, in processes that import TensorFlow
_LIMIT = "--step_timeout=2"
_QUICK = ["audit", "audit", "audit", "verify", "verify"]
_TIMED = ["bench", "tune"]


def of_steps(rng: random.Random) -> Case:
    """A graph whose step fails, waits or loops, or has plausible changes."""
    meta_graph = tf.MetaGraphDef.FromString(rng.choice([*_endless(), *seeds.trainings()]))
    for _ in range(rng.randint(0, 2)):
        rng.choice(CHANGES)(rng, meta_graph)
    name, tagged = stored(rng, meta_graph)
    command = rng.choice(_QUICK if rng.random() < 0.9 else _TIMED)
    if command == "audit":
        argv = ["audit", name, "--random_data", "--steps=2", *tagged]
    elif command == "verify":
        argv = ["convert", name, "-o", "out", "--verify", *tagged]
    elif command == "bench":
        argv = ["bench", name, "--seconds=2", "--batch_sizes=2", *tagged]
    else:
        argv = ["tune", name, "-o", "m.costs", "--seconds=2", *tagged]
    return Case([*argv, _LIMIT], processor=_PROCESSOR, apart=True)


@functools.lru_cache(maxsize=None)
def _endless() -> List[bytes]:
    """Graphs that train, but for one part each that never ends."""
    parts = [_waits, _loops, _fetches, _holds]
    return [serialize(_graph(part)) for part in parts]


def _graph(part: Any) -> tf.MetaGraphDef:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4], "x")
        weights = tf.get_variable("weights", [4, 4])
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)) * part(), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        return tf.train.export_meta_graph(graph=graph)


def _waits() -> tf.Tensor:
    queue = tf.FIFOQueue(1, tf.float32, shapes=[[]])
    with tf.control_dependencies([queue.dequeue()]):
        return tf.constant(1.0)


def _loops() -> tf.Tensor:
    start = [tf.constant(1.0)]
    return tf.while_loop(lambda i: i > 0.0, lambda i: i + 1.0, start, back_prop=False)


def _fetches() -> tf.Tensor:
    never = tf.data.Dataset.range(10).repeat().filter(lambda value: value < 0)
    with tf.control_dependencies([tf.data.make_one_shot_iterator(never).get_next()]):
        return tf.constant(1.0)


def _holds() -> tf.Tensor:
    """TensorFlow can't interrupt an empty staging area."""
    with tf.control_dependencies(tf.raw_ops.Unstage(dtypes=[tf.float32])):
        return tf.constant(1.0)
