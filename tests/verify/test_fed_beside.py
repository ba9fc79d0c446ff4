"""What is fed beside computed gradients is no gradient: factors, bounds, noise, masks, decays."""

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
    "mean": lambda g, given, weights: [
        (1 - given) * each + given * tf.sign(w) for each, w in zip(g, weights)
    ],
}
TENSORS = {
    "added": lambda g, given, _: [each + given for each in g],
    "clipped": lambda g, given, _: tf.clip_by_global_norm([each + given for each in g], 1.0)[0],
    "joined": lambda g, given, _: [tf.concat([each[1:], given[:1]], 0) for each in g],
    "chosen": lambda g, given, _: [tf.where(each > 0, each, given) for each in g],
    "branch": lambda g, given, _: [
        tf.cond(tf.placeholder(tf.bool, []), lambda each=each: each, lambda: given) for each in g
    ],
    "elastic": lambda g, given, weights: [
        each + tf.placeholder(tf.float32) * given * (w - given) for each, w in zip(g, weights)
    ],
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
@pytest.mark.parametrize("shape", [[], None], ids=["scalar", "of any shape"])
@pytest.mark.parametrize("term", TERMS)
def test_terms(term, shape):
    assert open_claims(*graphs_of(TERMS[term], shape)) == {}


@pytest.mark.unit
@pytest.mark.parametrize("change", TENSORS)
def test_tensors_of_a_variables_shape(change):
    assert open_claims(*graphs_of(TENSORS[change], [8, 8])) == {}


@pytest.mark.unit
def test_a_term_of_a_scalars_gradient():
    def model():
        gain, x = tf.get_variable("gain", []), tf.placeholder(tf.float32, [4, 8])
        loss = tf.nn.l2_loss(gain * tf.matmul(x, tf.get_variable("w", [8, 8])))
        gradient = tf.gradients(loss, gain)[0] + tf.placeholder(tf.float32, [], "given")
        tf.train.AdagradOptimizer(0.1).apply_gradients([(gradient, gain)])

    assert open_claims(*original_and_converted(model)) == {}


@pytest.mark.unit
@pytest.mark.parametrize("change", ["global norm", "value", "times", "decay", "mean"])
def test_a_gate_taken_away(change):
    original, right = graphs_of({**CHANGES, **TERMS}[change], [])
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
