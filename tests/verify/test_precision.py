"""Half precision where no policy may have it is found.

In a loss, behind an unscale, in what the value of a variable goes into.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.verify import verify
from tests.support.proved import HALF, converted, in_half


def model():
    """Two layers, Adam, a norm by hand, averages of weights and of what a layer gives, a rate
    that falls, a weight of the loss that grows.
    """
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    first, second = (tf.get_variable(name, [8, 8]) for name in ("first", "second"))
    hidden = tf.nn.relu(tf.matmul(x, first) + tf.get_variable("bias", [8]))
    step = tf.train.get_or_create_global_step()
    grown = tf.minimum(tf.cast(step, tf.float32) / 100.0, 1.0, name="least")
    squares = tf.maximum(grown, 0.5) * tf.square(tf.matmul(hidden, second))
    loss = tf.reduce_mean(squares, name="loss")
    mean = tf.get_variable("mean", [8], trainable=False)
    seen = tf.assign_sub(
        mean, tf.multiply(0.1, mean - tf.reduce_mean(hidden, 0), name="step"), name="seen"
    )
    rate = tf.divide(0.1, tf.cast(step, tf.float32) + 1.0, name="rate")
    gradients = tf.gradients(loss, [first, second])
    norm = tf.sqrt(sum(tf.reduce_sum(tf.square(each)) for each in gradients), name="norm")
    pairs = [
        (tf.divide(each, norm, name="shrunk"), variable)
        for each, variable in zip(gradients, [first, second])
    ]
    with tf.control_dependencies([seen, tf.train.AdamOptimizer(rate).apply_gradients(pairs, step)]):
        tf.train.ExponentialMovingAverage(0.9, name="average").apply([first])
    tf.global_variables_initializer()
    tf.train.Saver()


@pytest.fixture(scope="module")
def original():
    with tf.Graph().as_default():
        model()
        return tf.train.export_meta_graph()


def types(original, changed):
    """The claim of types."""
    return next(claim for claim in verify(original, changed).claims if claim.name == "types")


CASES = {
    "loss": "and a loss",
    "graphmp/loss_scale/scaled_seed": "and multiplies by a loss scale",
    "shrunk": "between a division by a loss scale, or a clip, and a write",
    "norm": "between a division by a loss scale, or a clip, and a write",
    "rate": "between a variable's value and a write that takes it",
    "step": "between a variable's value and a write that takes it",
    "least": "and made of counts and constants alone",
    "beta1_power/read": "is an output, a loss or a variable's value, and is float16",
    "average/AssignMovingAvg/sub_1": "between a variable's value and a write that takes it",
    "average/AssignMovingAvg/mul": "between a variable's value and a write that takes it",
}


@pytest.mark.unit
@pytest.mark.parametrize("scale", ["dynamic", 128.0])
@pytest.mark.parametrize("name", CASES)
def test_half_where_it_is_wrong(original, name, scale):
    found = types(original, in_half(converted(original, loss_scale=scale), name))
    assert found.verdict == "failed" and CASES[name] in found.text


@pytest.mark.unit
@pytest.mark.parametrize("name", ["rate", "step", "average/AssignMovingAvg/sub_1"])
def test_without_a_scale(original, name):
    """A variable's own value is as exact in a conversion that only computes in half."""
    assert (
        types(original, in_half(converted(original, loss_scale="none"), name)).verdict == "failed"
    )


@pytest.mark.unit
@pytest.mark.parametrize("use_resource", [True, False])
def test_a_rate_that_rises_until_a_step(use_resource):
    """A comparison is not made element by element; all that is made of a count is exact."""
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        weights = tf.get_variable("weights", [8, 8])
        step = tf.train.get_or_create_global_step()
        early = tf.cast(tf.less(step, 100), tf.float32)
        risen = tf.multiply(tf.cast(step, tf.float32), 1e-3, name="risen")
        rate = tf.add(tf.multiply(early, risen, name="early"), (1.0 - early) * 0.1)
        loss = tf.nn.l2_loss(tf.matmul(tf.placeholder(tf.float32, [4, 8]), weights))
        tf.train.GradientDescentOptimizer(rate).minimize(loss, step)
        graph = tf.train.export_meta_graph()
    words = {"risen": CASES["rate"], "early": "made of counts and constants alone"}
    for name in words:
        found = types(graph, in_half(converted(graph), name))
        assert found.verdict == "failed" and words[name] in found.text


@pytest.mark.unit
@pytest.mark.parametrize("use_resource", [True, False])
def test_a_weight_in_the_model_that_grows_with_the_steps(use_resource):
    """Layers that are faded in; a model reads the weights, and no write does."""
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        weights = [tf.get_variable(name, [8, 8]) for name in ("old", "new")]
        step = tf.train.get_or_create_global_step()
        fade = tf.minimum(tf.multiply(tf.cast(step, tf.float32), 1e-2, name="grown"), 1.0, "fade")
        old, new = (tf.matmul(tf.placeholder(tf.float32, [4, 8]), each) for each in weights)
        mixed = tf.matmul(tf.subtract(1.0, fade, name="left") * old + fade * new, weights[0])
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        optimizer.minimize(tf.nn.l2_loss(mixed), step)
        graph = tf.train.export_meta_graph()
    right = converted(graph)
    assert types(graph, right).verdict == "proved"
    mul = next(node for node in right.graph_def.node if node.name == "mul")
    assert mul.attr["T"].type == HALF
    for name in ("grown", "left"):
        found = types(graph, in_half(right, name))
        assert found.verdict == "failed" and "made of counts and constants alone" in found.text


@pytest.mark.unit
@pytest.mark.parametrize("name", ["biased", "bent", "new"])
def test_a_new_value_that_is_made_of_the_old_one(name):
    with tf.Graph().as_default():
        kept = tf.get_variable("kept", [8, 8], trainable=False)
        x, weights = tf.placeholder(tf.float32, [8, 8]), tf.get_variable("weights", [8, 8])
        biased = tf.nn.bias_add(kept, tf.reduce_mean(tf.matmul(x, weights), 0), name="biased")
        new = tf.add(tf.nn.relu(biased, name="bent"), 0.1, name="new")
        loss = tf.nn.l2_loss(tf.matmul(tf.matmul(x, new), weights))
        with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.1).minimize(loss)]):
            tf.assign(kept, new)
        graph = tf.train.export_meta_graph()
    right = converted(graph)
    assert types(graph, right).verdict == "proved"
    found = types(graph, in_half(right, name))
    assert found.verdict == "failed" and CASES["step"] in found.text


@pytest.mark.unit
def test_behind_a_clip_alone(original):
    graph = converted(original, loss_scale="none", clip_norm=1.0)
    assert "between a division" in types(original, in_half(graph, "shrunk")).text


@pytest.mark.unit
@pytest.mark.parametrize("name", ["gradients/Square_grad/Mul", "gradients/loss_grad/truediv"])
def test_half_where_a_policy_may_have_it(original, name):
    assert types(original, in_half(converted(original), name)).verdict == "proved"


@pytest.mark.unit
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"clip_norm": 1.0},
        {"loss_scale": "none"},
        {"compute_dtype": "bfloat16"},
        {"compute_dtype": "bfloat16", "loss_scale": 128.0},
    ],
)
def test_unspoilt(original, flags):
    assert types(original, converted(original, **flags)).verdict == "proved"


@pytest.mark.unit
@pytest.mark.parametrize("name", ["turns/add", "turns/add_1", "turns/Less", "halved"])
def test_the_count_of_a_loop_and_a_fed_rate(name):
    """In float16 a count of ones stops at 2048, and the loop with it never ends."""
    with tf.Graph().as_default():
        _, total = tf.while_loop(
            lambda turn, _: turn < 3000.0,
            lambda turn, total: (turn + 1.0, total + 0.1),
            [0.0, 0.0],
            name="turns",
        )
        rate = tf.multiply(tf.placeholder(tf.float32, [], name="rate"), 0.5, name="halved")
        y = tf.matmul(tf.placeholder(tf.float32, [4, 8]), tf.get_variable("weights", [8, 8]))
        loss = tf.reduce_mean(tf.square(y)) + total
        tf.train.GradientDescentOptimizer(rate).minimize(loss)
        graph = tf.train.export_meta_graph()
    right = converted(graph)
    assert types(graph, right).verdict == "proved"
    changed = in_half(right, name)
    if name.endswith("Less"):  # it gives no number to cast
        del changed.graph_def.node[-1]
        for node in changed.graph_def.node:
            node.input[:] = [name if text == "graphmp/up" else text for text in node.input]
    text = types(graph, changed).text
    assert "made of counts and constants alone" in text or CASES["rate"] in text
