"""Moves between casts: the cut may save bytes by them, and no op computes in half precision."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite import pipeline
from graphmp.verify import verify


def dense(x, size, name):
    with tf.variable_scope(name):
        return tf.matmul(x, tf.get_variable("w", (int(x.shape[-1]), size)))


def many_slices():
    """Half precision would save 64 times two reads of the softmax."""
    x = tf.placeholder(tf.float32, (None, 64, 128), "x")
    weights = tf.nn.softmax(tf.exp(x), name="weights")
    parts = [tf.log(weights[:, each] + 0.1) for each in range(64)]
    hidden = dense(tf.nn.relu(dense(tf.add_n(parts), 128, "a")), 128, "b")
    return hidden, tf.add_n(parts)


def many_transposes():
    x = tf.placeholder(tf.float32, (None, 512), "x")
    moved = tf.reshape(tf.nn.softmax(dense(x, 4096, "a"), name="weights"), (-1, 64, 64))
    for _ in range(6):
        moved = tf.transpose(tf.reverse(moved, [1]), (0, 2, 1))
    return dense(tf.reshape(tf.exp(moved), (-1, 4096)), 64, "b"), moved


def joined_with_half():
    """A concatenation of what a matmul gives with a few features from a logarithm."""
    x, features = tf.placeholder(tf.float32, (None, 512)), tf.placeholder(tf.float32, (None, 4))
    weights = tf.log(features + 1.0, name="weights")
    both = tf.concat([tf.nn.relu(dense(x, 512, "a")), weights], 1)
    for _ in range(4):
        both = tf.transpose(both)
    return tf.exp(both), both


def in_a_loop():
    x = tf.placeholder(tf.float32, (None, 64), "x")
    weights = tf.nn.softmax(dense(x, 64, "a"), name="weights")
    _, moved = tf.while_loop(
        lambda i, _: i < 9, lambda i, y: (i + 1, tf.reverse(tf.reverse(y, [1]), [1])), (0, weights)
    )
    moved = tf.exp(moved)
    return dense(moved, 64, "b"), moved


def trained(build):
    """A graph that trains by the mean squares of two tensors."""
    with tf.Graph().as_default():
        losses = [tf.reduce_mean(tf.square(each)) for each in build()]
        tf.train.GradientDescentOptimizer(0.1).minimize(sum(losses), name="train")
        return tf.train.export_meta_graph()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("build", [many_slices, many_transposes, joined_with_half, in_a_loop])
def test_what_is_only_moved_stays_float32(build, dtype):
    original, config = trained(build), Config.make(compute_dtype=dtype)
    converted = pipeline.rewrite(original, config, Policy.default(dtype)).meta_graph
    casts = [node.name for node in converted.graph_def.node if node.op == "Cast"]
    assert casts
    assert "weights_graphmp_%s" % dtype not in casts
    proof = verify(original, converted)
    assert proof.ok, proof.claims


@pytest.mark.unit
def test_the_reason_is_said():
    original = trained(many_transposes)
    found = pipeline.decide(original, Config.make(), Policy.default("float16"))[""]
    reasons = {unit.node: paint.reason.text for unit, paint in found.units()}
    moves = [name for name in reasons if name.startswith(("transpose", "ReverseV2"))]
    assert len(moves) == 12
    assert {reasons[name] for name in moves} == {"clear: float32 ops give and read what it moves"}
