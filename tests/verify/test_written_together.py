"""What a batch gives to several variables is written to all of them or to none.

A flag that looks at less is found.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.verify import verify
from tests.support.proved import converted, open_claims, original_and_converted


def model(ahead):
    """Two averages of what a layer gives, ahead of the gradients or beside the update."""
    x = tf.placeholder(tf.float32, [4, 8])
    weights = tf.get_variable("weights", [8, 8])
    hidden = tf.matmul(x, weights)
    mean, size = (
        tf.get_variable(name, [8], trainable=False, use_resource=True) for name in ("mean", "size")
    )
    statistics = [tf.assign_sub(mean, 0.5 * (mean - tf.reduce_mean(hidden, 0)), name="to_mean")]
    statistics += [
        tf.assign_sub(size, 0.5 * (size - tf.reduce_sum(tf.abs(hidden), 0)), name="to_size")
    ]
    with tf.control_dependencies(statistics if ahead else []):
        update = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(hidden)))
    tf.group(update, *statistics, name="train")


def of_its_own_value(graph_def):
    """Adds a flag that looks at the first of two values, twice; its name."""
    nodes = {node.name: node for node in graph_def.node}
    for name in ("small", "is_finite", "all_finite"):
        copied = graph_def.node.add()
        copied.CopyFrom(nodes["graphmp/moving_averages/" + name])
        copied.name += "_less"
        if name == "small":
            copied.input[1] = copied.input[0]
        else:
            copied.input[0] += "_less"
    return copied.name


# a flag that looks at less than that of both, by whether the writes come ahead of the gradients
LESS = {
    True: of_its_own_value,
    False: lambda graph_def: "graphmp/moving_averages/all_finite",  # at no gradient
}


@pytest.mark.unit
@pytest.mark.parametrize("ahead", LESS)
def test_one_goes_by_less_than_the_other(ahead):
    with tf.Graph().as_default():
        model(ahead)
        original = tf.train.export_meta_graph()
    found = converted(original)
    assert verify(original, found).ok
    nodes = {node.name: node for node in found.graph_def.node}
    gates = [node for name, node in nodes.items() if name.endswith("/selected")]
    one, other = (nodes[gate.input[1].split(":")[0]] for gate in gates)  # the Switch of each
    assert one.input[1] == other.input[1]
    one.input[1] = LESS[ahead](found.graph_def)
    claim = next(claim for claim in verify(original, found).claims if claim.verdict == "failed")
    assert claim.text.startswith(
        "AssignSubVariableOp goes by another flag than AssignSubVariableOp_1, by which its value is"
        " looked at"
    )


@pytest.mark.unit
def test_what_is_made_of_another_goes_by_its_values_too():
    """A centre is a sum by a count; where these keep their values, so does the centre."""
    with tf.Graph().as_default():
        x, weights = tf.placeholder(tf.float32, [4, 8]), tf.get_variable("weights", [8, 8])
        hidden = tf.matmul(x, weights)
        total, centre = (
            tf.get_variable(name, [8], trainable=False, use_resource=True)
            for name in ("total", "centre")
        )
        added = total.assign_add(tf.reduce_sum(hidden, 0), read_value=False)
        with tf.control_dependencies([added]):
            moved = centre.assign(total.read_value() / 2.0, read_value=False)
        loss = tf.reduce_mean(tf.square(hidden - centre))
        update = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        tf.group(update, moved, name="train")
        original = tf.train.export_meta_graph()
    found = converted(original)
    assert verify(original, found).ok
    nodes = {node.name: node for node in found.graph_def.node}
    values = nodes["graphmp/moving_averages/values"]
    values.input[:] = [each for each in values.input if "AssignVariableOp" in each] * len(
        values.input
    )
    (claim,) = [claim for claim in verify(original, found).claims if claim.verdict == "failed"]
    assert "AssignAddVariableOp, of which it is made, is skipped" in claim.text


def stages(layers):
    """Averages of layers, and beside them a variable that takes one of them as it then is."""
    x, writes = tf.placeholder(tf.float32, [4, 8]), []
    for number in range(layers):
        x = tf.matmul(x, tf.get_variable("weights_%d" % number, [8, 8]))
        mean, size, kept = (
            tf.get_variable("%s_%d" % (name, number), [8], trainable=False, use_resource=False)
            for name in ("mean", "size", "kept")
        )
        moved = tf.assign_sub(mean, mean - tf.reduce_mean(x, 0), name="to_mean_%d" % number)
        writes.append(tf.assign(size, tf.reduce_max(x, 0), name="to_size_%d" % number))
        writes.append(tf.assign(kept, tf.nn.relu(moved), name="to_kept_%d" % number))
    with tf.control_dependencies(writes):
        loss = tf.reduce_mean(tf.square(x))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


@pytest.mark.unit
@pytest.mark.parametrize("layers", [1, 2])
def test_an_earlier_stage_goes_by_less(layers):
    """What the later one takes exists only once the earlier one's flag has been looked at."""
    assert not open_claims(*original_and_converted(lambda: stages(layers)))


@pytest.mark.unit
def test_an_earlier_stage_goes_by_all_of_its_own():
    original, found = original_and_converted(lambda: stages(1))
    nodes = {node.name: node for node in found.graph_def.node}
    gate = nodes["graphmp/moving_averages/to_mean_0/selected"]
    nodes[gate.input[1].split(":")[0]].input[1] = of_its_own_value(found.graph_def)
    text = open_claims(original, found)["steps are skipped whole"]
    assert text.startswith("to_mean_0 goes by another flag than to_size_0, by which its value")


def sums_of_losses(by_value):
    """Two losses of one forward pass, each with a running sum beside its step.

    Ahead of them a fed value is written, or an average of what the first layer gives.
    """
    x, fed = tf.placeholder(tf.float32, [4, 8], "x"), tf.placeholder(tf.float32, [], "fed")
    state = tf.get_variable("state", [], initializer=tf.zeros_initializer(), trainable=False)
    first = tf.matmul(x, tf.get_variable("first", [8, 8]))
    new = state * 0.5 + tf.reduce_mean(first) if by_value else fed
    with tf.control_dependencies([tf.assign(state, new)]):
        factor = state.read_value()
    hidden = tf.matmul(first, tf.get_variable("second", [8, 8])) * (1.0 - factor)
    for name, shift in ("first", 1.0), ("second", 2.0):
        loss = tf.reduce_mean(tf.square(hidden + shift))
        total = tf.get_variable(
            "total_" + name, [], initializer=tf.zeros_initializer(), trainable=False
        )
        with tf.control_dependencies([tf.assign_add(total, loss)]):
            tf.identity(loss, name + "_summed")
        tf.train.GradientDescentOptimizer(0.1).minimize(
            loss, var_list=tf.trainable_variables(name), name="train_" + name
        )


@pytest.mark.parametrize("by_value", [False, True], ids=["fed", "by value"])
def test_what_another_step_or_none_runs_goes_by_the_values_that_it_is_made_of(by_value):
    """A running sum of a loss belongs to no step, and what it is made of to both."""
    original, found = original_and_converted(lambda: sums_of_losses(by_value))
    assert not open_claims(original, found)
    names = ["state", "total_first", "total_second"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(found)
        session.run(tf.global_variables_initializer())
        read = [name + ":0" for name in names]
        fetches = ["first_summed:0", "second_summed:0", "train_first"]
        feeds = {"x:0": np.ones((4, 8), np.float32), "fed:0": 0.5}
        infinite = {"x:0": feeds["x:0"] * 1e38} if by_value else {"fed:0": np.inf}
        session.run(fetches, feeds)
        before = session.run(read)
        session.run(fetches, dict(feeds, **infinite))
        assert before == session.run(read) and all(before)


def initialised_by_data(x, z, first):
    """Layers whose first batch sets their scales, the last of inputs that the others share."""

    def layer(inputs, name):
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            weights = tf.get_variable("weights", [8, 8])
            scale = tf.get_variable("scale", [8], initializer=tf.ones_initializer())
        outputs = tf.matmul(inputs, weights * scale)
        if not first:
            return outputs
        with tf.control_dependencies([scale.assign(1.0 / tf.reduce_max(outputs, 0))]):
            return tf.matmul(inputs, weights * scale)

    return layer(layer(x, "one") + z, "last") + layer(z, "other")


def test_layers_that_the_first_batch_initialises():
    """The last layer needs what the others need, and they don't need what it needs."""

    def model():
        x, z = tf.placeholder(tf.float32, [4, 8]), tf.placeholder(tf.float32, [4, 8])
        initialised_by_data(x, z, True)
        loss = tf.reduce_mean(tf.square(initialised_by_data(x, z, False)))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    assert not open_claims(*original_and_converted(model))


@pytest.mark.unit
@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("ahead", [False, True], ids=["behind", "ahead"])
def test_a_count_of_updates_that_goes_on_in_skipped_steps(ahead, use_resource):
    """An optimizer's own: it corrects averages by it."""

    def counting():
        with tf.variable_scope("", use_resource=use_resource):
            weights = tf.get_variable("weights", [8, 8])
            count = tf.get_variable("count", [], tf.int32, tf.zeros_initializer(), trainable=False)
        loss = tf.nn.l2_loss(tf.matmul(tf.placeholder(tf.float32, [4, 8]), weights))
        gradient = tf.gradients(loss, [weights])[0]
        if ahead:
            counted = tf.assign_add(count, 1, name="counted")
            with tf.control_dependencies([counted]):
                updated = tf.assign_sub(weights, gradient)
        else:
            with tf.control_dependencies([tf.assign_sub(weights, gradient)]):
                updated = tf.assign_add(count, 1, name="counted")
        tf.group(updated, name="train")

    original, right = original_and_converted(counting)
    assert not open_claims(original, right)
    write = next(n for n in original.graph_def.node if n.op.startswith("AssignAdd"))
    gate = "graphmp/loss_scale/skip/%s/" % write.name
    spoilt = tf.MetaGraphDef()
    spoilt.CopyFrom(right)
    kept = [node for node in right.graph_def.node if not node.name.startswith(gate)]
    del spoilt.graph_def.node[:]
    spoilt.graph_def.node.extend(kept)
    counted = next(node for node in spoilt.graph_def.node if node.name == write.name)
    counted.input[1] = write.input[1]
    text = open_claims(original, spoilt)["steps are skipped whole"]
    assert ("runs only with" if ahead else "follows") + " updates that are skipped, and is" in text
