"""Init ops of a part of the model initialise the loss scales of that part, and whole ones."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.verify import verify

STATE = ("scale", "good_steps", "skipped_steps")


def trained_in_turn():
    """Two models; `early` was made after the first, `late` after both."""
    with tf.Graph().as_default():
        for number, init in enumerate(("early", "late")):
            with tf.variable_scope("model%d" % number):
                x = tf.placeholder(tf.float32, [4, 8])
                loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 3)))
                tf.train.AdamOptimizer(0.1).minimize(loss)
            tf.variables_initializer(tf.global_variables(), name=init)
        return tf.train.export_meta_graph()


def trained_again():
    """One model and two optimizers; `early` was made ahead of the second one's slots."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 8])
        loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 3)))
        tf.train.AdamOptimizer(0.1).minimize(loss, name="first")
        tf.variables_initializer(tf.global_variables(), name="early")
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, name="second")
        tf.variables_initializer(tf.global_variables(), name="late")
        return tf.train.export_meta_graph()


def on_two_devices():
    """An init op that waits for one group for each device, and two losses."""
    with tf.Graph().as_default():
        for number in range(2):
            with tf.variable_scope("model%d" % number), tf.device("/cpu:%d" % number):
                x = tf.placeholder(tf.float32, [4, 8])
                weights = tf.get_variable("w", [8, 3])
                loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
                tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        tf.get_variable("seen", [], trainable=False)
        tf.variables_initializer(tf.global_variables(), name="late")
        return tf.train.export_meta_graph()


def converted_with(left_out=(), build=trained_in_turn):
    """The graph, and its conversion without what two init ops wait for."""
    original = build()
    converted = graphmp.convert(original).meta_graph
    for node in converted.graph_def.node:
        for name in [each for each in node.input if (node.name, each) in left_out]:
            node.input.remove(name)
    return original, converted


def failed(left_out, build=trained_in_turn):
    proof = verify(*converted_with(left_out, build))
    return [claim.text for claim in proof.claims if claim.verdict == "failed"]


def test_an_init_op_made_ahead_of_a_loss_knows_nothing_of_its_scale():
    original, converted = converted_with()
    waits = {
        n.name: [each for each in n.input if "graphmp" in each] for n in converted.graph_def.node
    }
    assert len(waits["early"]) == 3 and len(waits["late"]) == 6
    assert verify(original, converted).ok


def test_an_init_op_made_ahead_of_slots_knows_nothing_of_their_scale():
    assert failed((), trained_again) == []
    said = failed({("late", "^graphmp/loss_scale_1/scale/Assign")}, trained_again)
    assert "late initialises a part of what the scales keep" in said[0]


@pytest.mark.parametrize(
    "op, scale, names",
    [
        ("early", "loss_scale", STATE[:1]),
        ("early", "loss_scale", STATE[1:]),
        ("late", "loss_scale", STATE),
        ("late", "loss_scale", STATE[:1]),
        ("late", "loss_scale_1", STATE),
        ("late", "loss_scale_1", STATE[1:]),
    ],
)
def test_scales_are_initialised_whole_and_with_their_model(op, scale, names):
    said = failed({(op, "^graphmp/%s/%s/Assign" % (scale, name)) for name in names})
    assert "%s initialises a part of what the scales keep" % op in said[0]


def initial(scale):
    return {"^graphmp/%s/%s/Assign" % (scale, name) for name in STATE}


@pytest.mark.parametrize("scales", [["loss_scale"], ["loss_scale", "loss_scale_1"]])
def test_a_scale_that_is_never_initialised(scales):
    left_out = {(op, name) for op in ("early", "late") for s in scales for name in initial(s)}
    assert "early initialises a part of what the scales keep" in failed(left_out)[0]


def test_a_group_for_each_device():
    original, converted = converted_with(build=on_two_devices)
    groups = {
        node.name: {name for name in node.input if "graphmp/" in name}
        for node in converted.graph_def.node
        if node.name.startswith("late")
    }
    assert initial("loss_scale") | initial("loss_scale_1") == set().union(*groups.values())
    assert len(groups) > 1 and verify(original, converted).ok
    for scale in ("loss_scale", "loss_scale_1"):
        left_out = {(group, name) for group in groups for name in initial(scale)}
        assert "initialises a part of what the scales keep" in failed(left_out, on_two_devices)[0]


def test_a_graph_that_was_imported_into_itself_lists_contexts_twice():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 8])
        weights = tf.get_variable("w", [8, 8])
        _, last = tf.while_loop(
            lambda i, _: i < 3, lambda i, h: [i + 1, tf.tanh(tf.matmul(h, weights))], [0, x]
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(last)))
        original = tf.train.export_meta_graph()
    loops = original.collection_def["while_context"].bytes_list.value
    loops.extend(list(loops))
    converted = graphmp.convert(original).meta_graph
    assert verify(original, converted).ok
    del converted.collection_def["while_context"].bytes_list.value[-1]
    assert not verify(original, converted).ok
