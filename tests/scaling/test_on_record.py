"""Gradient code of graphs whose construction was recorded: that of the calls, by any name."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.graph.structure.gradient_record import RecordedCall, valid
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.gradient_calls import noted
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.renaming import random_names, renamed
from tests.support.scaled import losses_of, shaped
from tests.support.training_graphs import SHAPES

unit = pytest.mark.unit
PROGRAMS = {}
X = np.random.RandomState(0).randn(4, 3).astype(np.float32)


def program(*scopes):
    """Register a function that builds a step named `train`.

    `scopes` are the calls of `tf.gradients` whose gradients it applies.
    """

    def register(build):
        PROGRAMS[build.__name__] = build, list(scopes)
        return build

    return register


def model(name="loss"):
    """A placeholder, a weight, and the loss."""
    x = tf.placeholder(tf.float32, [4, 3], "x")
    weight = tf.get_variable(
        "weight", [3, 3], use_resource=True, initializer=tf.random_normal_initializer(seed=1)
    )
    return x, weight, tf.reduce_mean(tf.tanh(tf.matmul(x, weight)) ** 2, name=name)


def step(gradient, weight):
    tf.group(weight.assign_sub(gradient), name="train")


@program("gradients")
def scopes_that_look_like_gradients():
    _, weight, loss = model()
    gradient = tf.gradients(loss, weight)[0]
    gradient = tf.clip_by_norm(gradient, 0.5, name=weight.op.name + "_grad")
    with tf.name_scope("gradients/loss_grad/"):
        gradient = gradient * 2.0
    step(tf.clip_by_norm(gradient, 0.4, name="loss_grad"), weight)


@program("x_grad/foo")
def a_call_of_a_strange_name():
    x, weight, loss = model()
    with tf.name_scope("x_grad"):
        gradient = tf.gradients(loss, weight, name="foo", stop_gradients=[x])[0]
    step(gradient, weight)


@program("gradients")
def a_model_below_a_gradients_name():
    x = tf.placeholder(tf.float32, [4, 3], "x")
    weight = tf.get_variable("weight", [3, 3], use_resource=True)
    with tf.name_scope("x_grad"):
        hidden = tf.matmul(x, weight, name="MatMul_grad/hidden")
    step(tf.gradients(tf.reduce_mean(hidden**2), weight)[0], weight)


@program("gradients")
def recomputed_in_a_custom_gradient():
    x, weight, _ = model()

    def layer(value, kernel):
        return tf.tanh(tf.matmul(value, kernel))

    @tf.custom_gradient
    def recomputed(value, kernel):
        return layer(value, kernel), lambda dy: tf.gradients(
            layer(value, kernel), [value, kernel], dy, name="again"
        )

    step(
        tf.gradients(tf.reduce_mean(recomputed(recomputed(x, weight), weight) ** 2), weight)[0],
        weight,
    )


@program("gradients")
def loop():
    x, weight, _ = model()
    _, last = tf.while_loop(
        lambda turn, h: turn < 3, lambda turn, h: (turn + 1, tf.tanh(tf.matmul(h, weight))), [0, x]
    )
    step(tf.gradients(tf.reduce_mean(last**2), weight)[0], weight)


@program("gradient tape")
def tape():
    x, weight, _ = model()
    with tf.GradientTape() as watching:
        loss = tf.reduce_mean((tf.matmul(x, tf.eye(3)) * weight[:1]) ** 2)
    step(watching.gradient(loss, weight), weight)


@program("gradient tape")
def tape_of_two_losses():
    x, weight, _ = model()
    with tf.GradientTape() as watching:
        hidden = tf.matmul(x, weight)
        losses = [tf.reduce_sum(hidden**2, 1), tf.reduce_mean(hidden)]
    step(watching.gradient(losses, weight), weight)


@program("gradient tape")
def tape_with_its_own_seed():
    x, weight, _ = model()
    with tf.GradientTape() as watching:
        hidden = tf.matmul(x, weight)
    step(watching.gradient(hidden, weight, tf.fill([4, 3], 0.5)), weight)


@program("gradient tape", "gradients")
def tape_beside_a_call():
    x, weight, loss = model()
    with tf.GradientTape() as watching:
        other = tf.reduce_mean(tf.matmul(x, weight) ** 2)
    step(watching.gradient(other, weight) + tf.gradients(loss, weight)[0], weight)


def built(name):
    """A program's graph."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        PROGRAMS[name][0]()
        tf.global_variables_initializer()
        return graph


@pytest.mark.parametrize("loss_scale", [1024.0, "dynamic"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_updates(name, loss_scale):
    graph = built(name)
    conversion = graphmp.convert(graph, compute_dtype="float32", loss_scale=loss_scale)
    [loss] = conversion.report["losses"]
    assert sorted(loss["gradient_scope"].split(", ")) == PROGRAMS[name][1]
    assert not conversion.report["warnings"]
    before, after = (
        stepped(meta_graph) for meta_graph in (conversion.original, conversion.meta_graph)
    )
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-7)


def stepped(meta_graph):
    """The weight after one step."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta_graph)
        session.run("init")
        session.run("train", {"x:0": X})
        [name] = [
            op.name
            for op in session.graph.get_operations()
            if op.name.startswith("weight/Read") and op.name.endswith("ReadVariableOp")
        ][:1]
        return session.run(name + ":0")


@unit
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_code_is_what_the_calls_made(name):
    """Except the nodes that they made for the forward pass."""
    graph = built(name)
    meta_graph = tf.train.export_meta_graph(graph=graph)
    calls = valid(noted(graph), meta_graph.graph_def.node)
    read = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph), calls)
    assert sorted(read.code) == PROGRAMS[name][1]
    assert read.gradients == {node for call in calls for node in call.nodes}


@unit
def test_accumulators_are_of_the_forward_pass():
    graph = built("loop")
    [call] = noted(graph)
    kinds = {graph.get_operation_by_name(name).type for name in call.forward}
    assert {"StackV2", "StackPushV2", "Enter", "NextIteration"} <= kinds
    assert {"StackPopV2", "MatMul", "TanhGrad"} <= set(
        call.nodes.values()
    ) and "StackPushV2" not in call.nodes.values()
    assert not any(name.startswith("while/") for name in call.nodes)


@unit
@pytest.mark.parametrize("name", sorted(name for name in SHAPES if "import" not in name))
def test_losses_by_names_are_those_on_record(name):
    graph = shaped(name)
    meta_graph = tf.train.export_meta_graph(graph=graph)
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    assert facts(
        renamed(meta_graph, names),
        [renamed_call(call, names) for call in noted(graph) if not call.in_function],
        {},
    ) == facts(meta_graph, [], names)


def facts(meta_graph, recorded, names):
    """The seeds, gradients and updates of a graph's losses, by new names.

    Collections, which contain names too, are removed.
    """
    meta_graph.ClearField("collection_def")
    graph = TrainingGraph(
        meta_graph, Config.make(), OpDefs(meta_graph), valid(recorded, meta_graph.graph_def.node)
    )
    return sorted(
        [
            sorted(names.get(node, node) for node in nodes)
            for nodes in (
                [s.node for scope in loss.scopes for s in scope.seeds],
                gradients,
                loss.updates,
            )
        ]
        for loss in find_losses(graph, Config.make())
        for gradients in [[port.node for port in loss.gradients]]
    )


def renamed_call(call, names):
    def port(old):
        return old._replace(node=names[old.node])

    return call._replace(
        nodes={names[name]: op for name, op in call.nodes.items()},
        forward=tuple(names[name] for name in call.forward),
        seeds=tuple(map(port, call.seeds)),
        losses=tuple(names[name] for name in call.losses),
        results=tuple((names[name], port(gradient)) for name, gradient in call.results),
    )


@unit
def test_a_record_goes_through_json():
    for call in noted(built("loop")):
        assert RecordedCall.from_json(json.loads(json.dumps(call.as_json()))) == call


@unit
def test_a_record_of_other_names_is_none():
    """A graph imported below a scope: its gradient code is found by names."""
    graph = built("a_call_of_a_strange_name")
    with tf.Graph().as_default() as other:
        tf.train.import_meta_graph(tf.train.export_meta_graph(graph=graph), import_scope="imported")
    meta_graph = tf.train.export_meta_graph(graph=other)
    assert noted(other) == [] and valid(noted(graph), meta_graph.graph_def.node) == []
    _, [loss] = losses_of(meta_graph)
    assert [scope.scope for scope in loss.scopes] == ["imported/x_grad/foo"]


@unit
def test_a_given_scope_overrules_the_record():
    graph = built("a_call_of_a_strange_name")
    nodes = graph.as_graph_def().node
    assert [call.scope for call in valid(noted(graph), nodes, ["x_grad/foo/"])] == ["x_grad/foo"]
    assert valid(noted(graph), nodes, ["x_grad"]) == []


@unit
def test_calls_of_one_scope_are_told_apart():
    with tf.Graph().as_default() as graph:
        _, weight, loss = model()
        for _ in range(2):
            with tf.name_scope("both/"):
                tf.gradients(loss, weight, name="both/")
    assert [call.scope for call in valid(noted(graph), graph.as_graph_def().node)] == [
        "both",
        "both (2)",
    ]


@unit
def test_a_seed_that_others_read_is_not_told_from_a_forward_value():
    with tf.Graph().as_default() as graph:
        x, weight, _ = model()
        with tf.GradientTape() as watching:
            hidden = tf.matmul(x, weight)
        watching.gradient(hidden, weight, hidden * 1.0)
        assert len(noted(graph)) == 1
        seed = hidden * 1.0
        tf.identity(seed)
        with tf.GradientTape() as watching:
            hidden = tf.matmul(x, weight)
        watching.gradient(hidden, weight, seed)
    assert len(noted(graph)) == 1


@unit
def test_a_call_that_fails_is_not_noted_and_the_next_one_is():
    with tf.Graph().as_default() as graph:
        _, weight, loss = model()
        refused = tf.py_func(lambda value: value, [weight * 2], tf.float32)
        with pytest.raises(TypeError):
            tf.gradients(loss, weight, tf.reduce_sum(refused) > 0)
        assert noted(graph) == []
        tf.gradients(loss, weight)
    assert len(noted(graph)) == 1


def fed_and_trained():
    """A placeholder and a weight."""
    x = tf.placeholder(tf.float32, [4, 3], "x")
    return x, tf.get_variable("weight", [3, 3], use_resource=True)


def by_tape(x, weight):
    """A loss and its gradient."""
    with tf.GradientTape() as watching:
        loss = tf.reduce_mean((tf.matmul(x, tf.eye(3)) * weight[:1]) ** 2)
    return loss, watching.gradient(loss, weight)


@unit
def test_functions_that_train_inside_are_on_record():
    with tf.Graph().as_default() as graph:
        x, weight = fed_and_trained()

        @tf.function
        def train(x):
            loss, gradient = by_tape(x, weight)
            weight.assign_sub(gradient)
            return loss

        train(x)
    conversion = graphmp.convert(graph, compute_dtype="float32")
    [loss] = conversion.report["losses"]
    assert loss["gradient_scope"].endswith("/gradient tape")


@unit
def test_functions_whose_gradients_are_applied_elsewhere_are_on_record():
    with tf.Graph().as_default() as graph:
        x, weight = fed_and_trained()

        @tf.function
        def gradient(x):
            return by_tape(x, weight)[1]

        weight.assign_sub(gradient(x))
    conversion = graphmp.convert(graph, compute_dtype="float32")
    [loss] = conversion.report["losses"]
    assert loss["gradient_scope"].endswith("/gradient tape")
