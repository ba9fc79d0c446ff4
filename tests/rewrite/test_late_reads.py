"""Reads of a reference after a write in the same step: the variable's memory, not its old value."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.verify import verify

X = np.random.RandomState(0).randn(50, 4).astype(np.float32)
Y = X @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)


def loss(weights, x):
    return tf.reduce_mean(tf.square(tf.matmul(x, weights) - Y))


def waiting_for_a_step(w, x, optimizer):
    train = optimizer.minimize(loss(w, x))
    with tf.control_dependencies([train]):
        return train, loss(w, x)


def by_data(w, x, optimizer):
    train = optimizer.minimize(loss(w, x))
    with tf.control_dependencies([train]):
        again = tf.identity(x)
    return train, loss(w, again)


def handed_on(w, x, optimizer):
    """The read is reshaped before the step, and used after it."""
    reshaped = tf.reshape(tf.identity(w), [4, 1])
    train = optimizer.minimize(loss(w, x))
    with tf.control_dependencies([train]):
        return train, loss(reshaped, x)


def three_steps(w, x, optimizer):
    train = tf.no_op()
    for _ in range(3):
        with tf.control_dependencies([train]):
            last = loss(w, x)
            train = optimizer.minimize(last)
    return train, last


def in_a_loop(w, x, _):
    def body(step, _):
        value = loss(w, x)
        write = tf.assign_sub(w, 0.1 * tf.gradients(value, w)[0])
        with tf.control_dependencies([write]):
            return step + 1, tf.identity(value)

    start = [tf.constant(0), tf.constant(0.0)]
    loop = tf.while_loop(lambda step, _: step < 5, body, start, parallel_iterations=1)
    return loop[0], loop[1]


def after_a_loop(w, x, optimizer):
    """The loop doesn't write, but is behind the step."""
    train = optimizer.minimize(loss(w, x))
    with tf.control_dependencies([train]):
        start = [tf.constant(0), tf.constant(0.0)]

    def body(step, total):
        return step + 1, total + tf.reduce_sum(tf.matmul(x, w))

    return train, tf.while_loop(lambda step, _: step < 3, body, start, back_prop=False)[1]


BUILDS = [waiting_for_a_step, by_data, handed_on, three_steps, in_a_loop, after_a_loop]


def built(build):
    with tf.Graph().as_default():
        w = tf.Variable(tf.ones([4, 1]), name="w", use_resource=False)
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        train, late = build(w, x, tf.train.GradientDescentOptimizer(0.2))
        tf.group(train, name="train")
        tf.identity(late, "late")
        tf.global_variables_initializer()
        return tf.train.export_meta_graph()


def trained(meta_graph):
    with tf.Graph().as_default():
        tf.train.import_meta_graph(meta_graph)
        with tf.Session(config=graphmp.session_config()) as session:
            session.run("init")
            return [session.run(["late:0", "train"], {"x:0": X})[0] for _ in range(3)]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("loss_scale", ["none", "dynamic"])
def test_what_reads_after_a_write_sees_the_new_value(build, loss_scale):
    original = built(build)
    converted = graphmp.convert(original, loss_scale=loss_scale).meta_graph
    assert trained(converted) == pytest.approx(trained(original), rel=2e-2, abs=1e-3)
    proof = verify(original, converted)
    assert proof.ok, [claim for claim in proof.claims if claim.verdict == "failed"]


def late_cast(meta_graph):
    (found,) = (
        node
        for node in meta_graph.graph_def.node
        if node.op == "Cast" and node.input[0] == "w/read" and len(node.input) > 1
    )
    return found


def test_a_reader_has_a_cast_of_its_own_and_the_others_one_for_all():
    converted = graphmp.convert(built(waiting_for_a_step), loss_scale="none").meta_graph
    assert list(late_cast(converted).input) == ["w/read", "^GradientDescent"]
    readers = [
        node.name for node in converted.graph_def.node if late_cast(converted).name in node.input
    ]
    assert readers == ["MatMul_1"]


def without_the_wait(meta_graph, cast):
    del cast.input[1:]


def with_the_others(meta_graph, cast):
    for node in meta_graph.graph_def.node:
        for slot, name in enumerate(node.input):
            if name == cast.name:
                node.input[slot] = "w/read_graphmp_float16"


@pytest.mark.parametrize("change", [without_the_wait, with_the_others])
def test_the_proof_finds_a_copy_of_before_the_write(change):
    original = built(waiting_for_a_step)
    converted = graphmp.convert(original, loss_scale="none").meta_graph
    change(converted, late_cast(converted))
    failed = [claim for claim in verify(original, converted).claims if claim.verdict == "failed"]
    assert "which reads what is written" in failed[0].text


def test_an_iteration_that_reads_the_scale_too_early_is_not_proved():
    original = built(in_a_loop)
    converted = graphmp.convert(original, loss_scale="dynamic").meta_graph
    nodes = {node.name: node for node in converted.graph_def.node}
    for name in ("scale", "good_steps", "skipped_steps"):
        nodes["graphmp/loss_scale/%s/handle/of" % name].input[:] = ["^while/AssignSub/RefEnter"]
    proof = verify(original, converted)
    failed = [claim.text for claim in proof.claims if claim.verdict == "failed"]
    assert any("does not wait for the iteration before" in text for text in failed)
