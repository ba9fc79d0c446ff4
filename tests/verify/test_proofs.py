"""Conversions are proved: every shape of training code, recorded graphs, all kinds of scale."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize
from graphmp.policy.dtypes import RESOURCE
from graphmp.verify import verify
from tests.support.corpus import recorded
from tests.support.proved import converted, open_claims, original_and_converted
from tests.support.training_graphs import SHAPES, sgd, square, two_layers, vectors

HOW = {
    "dynamic": {},
    "clip": {"clip_norm": 1.0},
    "fixed": {"loss_scale": 128.0},
    "none": {"loss_scale": "none"},
}


def unproved(original, **flags):
    """The claims that don't hold for the conversion of a graph."""
    return open_claims(original, converted(original, **flags))


def built(name, resource):
    """The graph of a shape."""
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=resource):
        SHAPES[name].build()
        return tf.train.export_meta_graph()


def test_a_mark_of_both_graphs_claims_nothing():
    """Converted again, a graph stays as it is; its mark is of the first conversion."""
    once = converted(built("plain", False))
    claims = {claim.name: claim for claim in verify(once, converted(once)).claims}
    assert claims["parameters"].verdict == "not applicable"
    assert not open_claims(once, converted(once))


@pytest.mark.unit
def test_a_graph_that_scales_its_own_loss():
    """Its mark says that no scale and no clip were put in; the same flags still change nothing."""

    def build():
        loss = square(two_layers(vectors())) * 128.0
        pairs = sgd().compute_gradients(loss)
        sgd().apply_gradients([(g / 128.0, v) for g, v in pairs], name="train")

    original, once = original_and_converted(build, clip_norm=1.0)
    claims = {claim.name: claim for claim in verify(original, once).claims}
    assert claims["parameters"].verdict == "proved"
    assert "loss_scale none, clip_norm 0" in claims["parameters"].text
    assert converted(once, clip_norm=1.0) == once


def cases():
    """Shapes, kinds of scale and of variables; by default each shape has one of them, in turn."""
    for number, name in enumerate(sorted(SHAPES)):
        for place, (how, resource) in enumerate(
            (how, resource) for how in HOW for resource in (False, True)
        ):
            late = [] if place == number % (2 * len(HOW)) else [pytest.mark.slow]
            yield pytest.param(
                name,
                how,
                resource,
                id="%s-%s-%s" % (name, how, "resource" if resource else "reference"),
                marks=late,
            )


@pytest.mark.parametrize("name, how, resource", cases())
def test_shapes(name, how, resource):
    """Training code of many shapes."""
    assert unproved(built(name, resource), **HOW[how]) == {}


FACTORS = {
    "of the gradient": lambda rate, gradient, w: rate * gradient,
    "of a decay": lambda rate, gradient, w: gradient + rate * w,
    "of its norm": lambda rate, gradient, w: tf.minimum(rate, tf.norm(gradient)) * gradient,
    "in a branch": lambda rate, gradient, w: tf.cond(
        rate > 0, lambda: rate * gradient, lambda: gradient
    ),
}


@pytest.mark.unit
@pytest.mark.parametrize("how", FACTORS)
def test_a_fed_factor_is_no_fed_gradient(graph, how):
    """A learning rate that the gradient is multiplied by ahead of the update kernel."""
    rate = tf.placeholder(tf.float32, [])
    w = tf.get_variable("w", [8, 4])
    loss = square(tf.matmul(tf.placeholder(tf.float32, [16, 8]), w))
    step = FACTORS[how](rate, tf.gradients(loss, w)[0], w)
    tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(step, w)], name="train")
    assert unproved(tf.train.export_meta_graph(), compute_dtype="float32") == {}


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("how", sorted(HOW))
def test_a_state_that_goes_from_batch_to_batch(graph, how, resource):
    """It is half where it is computed, and written behind the updates.

    What stands in for it in a skipped step is read then.
    """
    with tf.variable_scope("", use_resource=resource):
        kept = tf.get_variable("kept", [4, 6], initializer=tf.zeros_initializer(), trainable=False)
        cell = tf.nn.rnn_cell.LSTMCell(6, state_is_tuple=False)
        other = tf.get_variable(
            "other", [4, 6], initializer=tf.zeros_initializer(), trainable=False
        )
        state = tf.concat([tf.identity(kept), tf.identity(other)], 1)
        top, state = tf.nn.dynamic_rnn(
            cell, tf.placeholder(tf.float32, [4, 5, 3], "x"), initial_state=state
        )
        loss = tf.reduce_mean(tf.square(tf.layers.dense(top, 2)))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.control_dependencies([step]):
        tf.group(
            *[
                tf.assign(variable, value)
                for variable, value in zip((kept, other), tf.split(state, 2, 1))
            ],
            name="train",
        )
    assert unproved(tf.train.export_meta_graph(graph=graph), **HOW[how]) == {}


@recorded(slice(1, None, 3), slow=slice(None))
def test_recorded(paths):
    """What other people wrote."""
    assert {path.name: unproved(read_graph(str(path)), clip_norm=1.0) for path in paths} == {
        path.name: {} for path in paths
    }


@pytest.mark.unit
def test_the_original_is_its_own_conversion():
    """Nothing was put in, nothing is to be proved of a scale."""
    graph = built("plain", False)
    proof = verify(graph, graph)
    assert proof.ok
    assert [claim.name for claim in proof.claims if claim.verdict == "not applicable"] == [
        "scale cancels", "steps are skipped whole", "clip", "parameters",
    ]  # fmt: skip


@pytest.mark.unit
def test_graphs_stay_as_they_are():
    """What is looked at is not changed by that: protobuf adds what is asked for."""
    graph = built("towers", True)
    other = converted(graph, clip_norm=1.0)
    before = serialize(graph), serialize(other)
    assert verify(graph, other).ok
    assert (serialize(graph), serialize(other)) == before


@pytest.mark.unit
def test_arguments_in_the_main_graph_stay_arguments():
    given = tf.MetaGraphDef()
    node = given.graph_def.node.add(name="handle", op="_Arg")
    node.attr["T"].type, node.attr["index"].i = RESOURCE, 0
    verify(given, given)
    assert node.op == "_Arg"


@pytest.mark.unit
def test_other_way_round():
    """An original is no conversion of its conversion."""
    graph = built("plain", False)
    assert not verify(converted(graph), graph).ok


@pytest.mark.unit
def test_a_switch_for_each_tensor_of_the_first_step(graph):
    """As earlier conversions have it."""
    SHAPES["plain"].build()
    original = tf.train.export_meta_graph()
    other = converted(original)
    for row in [node for node in other.graph_def.node if node.name.endswith("/row")]:
        del row.input[-1]
        switch = other.graph_def.node.add(name=row.name[:-3] + "own_switch", op="Switch")
        switch.attr["T"].CopyFrom(row.attr["T"])
        switch.input.extend([row.input[0], "graphmp/loss_scale/first_step"])
        row.input[0] = switch.name + ":1"
    for name in ("switch", "taken"):
        shared = "graphmp/loss_scale/first_step/largest_of/" + name
        (node,) = (node for node in other.graph_def.node if node.name == shared)
        other.graph_def.node.remove(node)
    assert open_claims(original, other) == {}
