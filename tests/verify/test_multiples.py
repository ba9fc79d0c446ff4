"""What multiplies or bounds a checked gradient is no gradient; what is added to one may be."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.verify import verify
from tests.support.proved import Planted, open_claims, original_and_converted

SKIPPED = "steps are skipped whole"
CHANGES = {
    "global norm": lambda g, given, _: tf.clip_by_global_norm(g, given)[0],
    "global norm by hand": lambda g, given, _: [
        tf.identity(each * given * tf.minimum(1.0 / tf.global_norm(g), 1.0 / given)) for each in g
    ],
    "global norm, computed": lambda g, given, _: tf.clip_by_global_norm(g, tf.exp(given))[0],
    "norm": lambda g, given, _: [tf.clip_by_norm(each, given) for each in g],
    "value": lambda g, given, _: [tf.clip_by_value(each, -given, given) for each in g],
    "times": lambda g, given, _: [given * each for each in g],
    "over": lambda g, given, _: [tf.reshape(each / given, [8, 8]) for each in g],
}
TERMS = {
    "decay": lambda g, given, weights: [each + given * w for each, w in zip(g, weights)],
    "noise": lambda g, given, _: [each + given * tf.random_normal(each.shape) for each in g],
}


def updates(change, shape, name=""):
    """Two layers, whose gradients are changed by a fed tensor and given to Adagrad."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        weights = [tf.get_variable(each, [8, 8]) for each in ("first", "second")]
    x, given = tf.placeholder(tf.float32, [4, 8]), tf.placeholder(tf.float32, shape, "given")
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, weights[0])), weights[1])))
    changed = change(tf.gradients(loss, weights), given, weights)
    tf.train.AdagradOptimizer(0.1).apply_gradients(zip(changed, weights), name="train" + name)


def graphs_of(change, shape):
    return original_and_converted(lambda: updates(change, shape))


@pytest.mark.unit
@pytest.mark.parametrize("shape", [[], None], ids=["scalar", "of any shape"])
@pytest.mark.parametrize("change", CHANGES)
def test_factors_and_bounds(change, shape):
    assert open_claims(*graphs_of(CHANGES[change], shape)) == {}


@pytest.mark.unit
@pytest.mark.parametrize("term", TERMS)
def test_a_scalar_is_no_gradient_of_a_matrix(term):
    assert open_claims(*graphs_of(TERMS[term], [])) == {}


@pytest.mark.unit
@pytest.mark.parametrize(
    "change",
    [
        lambda g, given, _: [each + given for each in g],
        lambda g, given, _: tf.clip_by_global_norm([each + given for each in g], 1.0)[0],
        lambda g, given, _: [tf.concat([each[1:], given[:1]], 0) for each in g],
        lambda g, given, _: [tf.where(each > 0, each, given) for each in g],
    ],
    ids=["added", "clipped", "joined", "chosen"],
)
def test_a_fed_gradient_beside_a_checked_one(change):
    assert "waits for no flag" in open_claims(*graphs_of(change, [8, 8]))[SKIPPED]


@pytest.mark.unit
def test_a_fed_gradient_of_a_scalar():
    def model():
        gain, x = tf.get_variable("gain", []), tf.placeholder(tf.float32, [4, 8])
        loss = tf.nn.l2_loss(gain * tf.matmul(x, tf.get_variable("w", [8, 8])))
        gradient = tf.gradients(loss, gain)[0] + tf.placeholder(tf.float32, [], "given")
        tf.train.AdagradOptimizer(0.1).apply_gradients([(gradient, gain)])

    assert "waits for no flag" in open_claims(*original_and_converted(model))[SKIPPED]


@pytest.mark.unit
@pytest.mark.parametrize("change", ["global norm", "value", "times"])
def test_a_gate_taken_away(change):
    original, right = graphs_of(CHANGES[change], [])
    planted = Planted(right)
    update = planted.nodes["train/update_first/ApplyAdagrad"]
    (slot,) = [slot for slot, text in enumerate(update.input) if "/skip/" in text]
    update.input[slot] = planted.nodes[update.input[slot].split(":")[0]].input[0]
    assert SKIPPED in open_claims(original, planted.meta_graph)


@pytest.mark.unit
def test_the_flag_of_another_loss():
    def model():
        for name in ("a", "b"):
            updates(CHANGES["global norm"], [], name)

    original, right = original_and_converted(model)
    assert verify(original, right).ok
    planted = Planted(right)
    gates = [
        planted.nodes[
            "graphmp/loss_scale%s/skip/train%s/update_%s/first/ApplyAdagrad/switch" % each
        ]
        for each in (("", "a", "a"), ("_1", "b", "b"))
    ]
    gates[0].input[1] = gates[1].input[1]
    assert SKIPPED in open_claims(original, planted.meta_graph)
