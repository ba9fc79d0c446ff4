"""Conversions that are run, and their verdicts."""

from __future__ import annotations

import functools

import tensorflow.compat.v1 as tf

from graphmp.audit.options import AuditOptions
from graphmp.executed.check import Executed
from tests.support.proved import converted


def two_alike():
    """Two layers of the same shape after a batch normalisation, Momentum, a global step."""
    x = tf.placeholder(tf.float32, [4, 8], "x")
    with tf.variable_scope("net"):
        first, second = (
            tf.get_variable(name, [8, 8], use_resource=False) for name in ("first", "second")
        )
        hidden = tf.nn.relu(tf.matmul(x, first))
        mean = tf.get_variable(
            "mean", [8], initializer=tf.zeros_initializer(), trainable=False, use_resource=False
        )
        kept = tf.assign(mean, 0.9 * mean + 0.1 * tf.reduce_mean(hidden, 0), name="keep")
        with tf.control_dependencies([kept]):
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, second)), name="loss")
    step = tf.train.get_or_create_global_step()
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step, name="train")


@functools.lru_cache(maxsize=None)
def graphs(**flags):
    """That model's graph, and its conversion; built once, don't change them."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        two_alike()
        original = tf.train.export_meta_graph()
    return original, converted(original, **flags)


def verdicts(original, other, report=None, steps=3, tolerance=0.1, **options):
    """The verdict of each claim made by running two graphs, and the texts of open claims.

    The verdicts are by name.
    """
    claims = Executed(
        original, other, AuditOptions(steps=steps, **options), tolerance, report
    ).claims()
    return {claim.name: claim.verdict for claim in claims}, {
        claim.name: claim.text for claim in claims if claim.verdict in ("failed", "not proved")
    }
