"""The dynamic scale is on the host, and only numbers cross to it."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.loss_scale.scales import HOST
from tests.support.painting import built


def net(scope="net"):
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    with tf.variable_scope(scope):
        return tf.reduce_mean(tf.layers.dense(tf.layers.dense(x, 8, tf.nn.relu), 3) ** 2)


def one_loss():
    tf.train.AdamOptimizer().minimize(net(), tf.train.get_or_create_global_step(), name="train")


def two_losses():
    steps = [tf.train.GradientDescentOptimizer(0.1).minimize(net(name)) for name in ("a", "b")]
    with tf.control_dependencies(steps):
        tf.assign_add(tf.train.get_or_create_global_step(), 1, name="train")


def in_another_process():
    with tf.device("/job:ps/task:0"):
        one_loss()


def converted(build, **flags):
    """The graph after a conversion with a dynamic scale, imported for its shapes."""
    made = graphmp.convert(
        built(build), engine="rewrite", compute_dtype="float16", loss_scale="dynamic", **flags
    )
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(made.meta_graph.graph_def, name="")
    return graph.get_operations()


def on_host(op):
    return op.device.endswith(HOST)


@pytest.mark.parametrize("build", [one_loss, two_losses, in_another_process])
def test_only_numbers_cross_to_the_host(build):
    crossing = [
        (op.name, value.name)
        for op in converted(build, clip_norm=1.0)
        if on_host(op)
        for value in op.inputs
        if not on_host(value.op) and value.shape != []
    ]
    assert crossing == []


@pytest.mark.parametrize("build", [one_loss, two_losses, in_another_process])
def test_what_is_computed_from_the_state_is_on_the_host(build):
    names = ("current", "in_step", "finite", "all_finite", "finite_sums/switch", "skip/all")
    own = [op for op in converted(build) if op.name.startswith("graphmp/loss_scale")]
    known = [op for op in own if "/update/" in op.name or op.name.endswith(names)]
    assert len(known) > 40
    assert [op.name for op in known if not on_host(op)] == []


def test_gradients_are_reduced_beside_themselves():
    """Of each loss the host gets the flag of the sums, that of the tests, and the largest value."""
    crossing = {
        value.op.name
        for op in converted(one_loss)
        if on_host(op)
        for value in op.inputs
        if not on_host(value.op)
    }
    assert sorted(name.split("/")[-1] for name in crossing) == [
        "finite_sums",
        "finite_tests",
        "largest",
    ]


def test_a_process_keeps_its_scale():
    devices = {op.device for op in converted(in_another_process) if on_host(op)}
    assert devices == {"/job:ps/task:0" + HOST}


def test_a_fixed_scale_is_left_to_tensorflow():
    made = graphmp.convert(built(one_loss), engine="rewrite", loss_scale=128.0)
    assert not any(node.device for node in made.meta_graph.graph_def.node)
