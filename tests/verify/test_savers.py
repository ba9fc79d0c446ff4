"""Savers that code makes beside a loss scale, in the build function or behind it."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.proved import Planted, by_recipe, open_claims, original_and_converted


def plain():
    tf.train.Saver()


def under_other_names():
    tf.train.Saver({"old/" + each.op.name: each for each in tf.global_variables()})


def of_weights_too():
    tf.train.Saver()
    tf.train.Saver(tf.trainable_variables())


def in_shards():
    tf.train.Saver(sharded=True)


def beside_a_rate_that_is_set():
    """The old rate, which is kept instead of one that isn't finite, is read when it is set."""
    rate = tf.get_variable("rate", [], trainable=False)
    tf.assign(rate, tf.placeholder(tf.float32, []), name="set_rate")
    tf.assign(rate, rate * 0.5, name="halve_rate")
    tf.train.Saver()


def model(decorate, inside=True, use_resource=False, scope="net", saver=plain):
    """A Saver in the build function, or made by its caller."""
    with tf.variable_scope("", use_resource=use_resource):
        x = tf.placeholder(tf.float32, [4, 8], name="x")

        @decorate
        def build(x):
            with tf.variable_scope(scope):
                hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("first", [8, 8])))
                loss = tf.nn.l2_loss(tf.matmul(hidden, tf.get_variable("second", [8, 1])))
            train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(
                loss, tf.train.get_or_create_global_step(), name="train"
            )
            if inside:
                saver()
            return loss, train

        build(x)
        if not inside:
            saver()
    tf.global_variables_initializer()


def graphs(**options):
    return by_recipe(lambda decorate: model(decorate, **options), engine="recipe")


# The names of a scale's variables come behind those of the model, or between them.
@pytest.mark.parametrize(
    "inside, use_resource, scope",
    [*itertools.product((True, False), (True, False), ("a", "net"))],
)
def test_is_proved(inside, use_resource, scope):
    original, converted = graphs(inside=inside, use_resource=use_resource, scope=scope)
    assert not open_claims(original, converted)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize(
    "saver",
    [under_other_names, of_weights_too, in_shards, beside_a_rate_that_is_set],
    ids=lambda saver: saver.__name__,
)
def test_other_savers(saver, use_resource):
    assert not open_claims(*graphs(saver=saver, use_resource=use_resource))


def listed(graph, op):
    """The constant that names the tensors of the Saver's only node of an op."""
    (node,) = (node for node in graph.nodes.values() if node.op == op)
    return graph.nodes[node.input[1]].attr["value"].tensor.string_val


def saves_under_others_names(graph):
    names = listed(graph, "SaveV2")
    names[:] = sorted(names, reverse=True)


def saves_a_name_without_a_tensor(graph):
    (node,) = (node for node in graph.nodes.values() if node.op == "SaveV2")
    for text, more in zip(node.input[1:3], (b"another", b"")):
        tensor = graph.nodes[text].attr["value"].tensor
        tensor.string_val.append(more)
        tensor.tensor_shape.dim[0].size += 1


def restores_others_values(graph):
    names = listed(graph, "RestoreV2")
    first, second = (list(names).index(b"net/" + each) for each in (b"first", b"first/Momentum"))
    names[first], names[second] = names[second], names[first]


def restores_others_scale(graph):
    names = listed(graph, "RestoreV2")
    first, second = (
        list(names).index(b"graphmp/loss_scale/" + each)
        for each in (b"good_steps", b"skipped_steps")
    )
    names[first], names[second] = names[second], names[first]


def leaves_one_out(graph):
    name = next(
        name for name, node in graph.nodes.items() if node.op == "Assign" and "scale/scale" in str(node)
        and name.startswith("save/")
    )  # fmt: skip
    graph.nodes["save/restore_all"].input.remove("^" + name)


def writes_another(graph):
    node = next(
        node for name, node in graph.nodes.items()
        if name.startswith("save/Assign") and node.input[0] == "net/first"
    )  # fmt: skip
    node.input[0] = "net/first/Momentum"


@pytest.mark.parametrize(
    "plant",
    [
        saves_under_others_names,
        saves_a_name_without_a_tensor,
        restores_others_values,
        restores_others_scale,
        leaves_one_out,
        writes_another,
    ],
    ids=lambda plant: plant.__name__,
)
def test_planted(plant):
    original, converted = graphs()
    graph = Planted(converted)
    plant(graph)
    assert "same graph" in open_claims(original, graph.meta_graph)


def test_a_restore_takes_what_the_checkpoint_has(tmp_path):
    """Also what is not finite: a restore is no step."""
    with tf.Graph().as_default(), tf.Session() as session:
        model(graphmp.mixed_precision(engine="recipe"))
        saver = tf.train.Saver(name="of_test")
        session.run(tf.global_variables_initializer())
        weights = next(v for v in tf.global_variables() if v.op.name == "net/first")
        session.run(weights.assign(np.full((8, 8), np.inf, np.float32)))
        path = saver.save(session, str(tmp_path / "model"))
        session.run(tf.global_variables_initializer())
        session.run("save/restore_all", {"save/Const:0": path})
        assert np.isinf(session.run("net/first:0")).all()


def test_a_restore_that_waits_for_nothing_is_said():
    """The rewrite's own node behind a Saver, without the restores of the scale's variables."""
    original, converted = original_and_converted(saved_model)
    graph = Planted(converted)
    (waits,) = (
        node for name, node in graph.nodes.items()
        if name.startswith("graphmp/loss_scale/saver") and name.endswith("cond_1/group_deps_1")
    )  # fmt: skip
    assert len(waits.input) > 1
    del waits.input[:]
    assert "same graph" in open_claims(original, graph.meta_graph)


def saved_model():
    model(lambda build: build)
