"""The losses of training graphs.

Gradient scopes, seeds, gradients and updates, as written down by hand.
"""

from __future__ import annotations

import collections

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.gate.reading import read_graph
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from tests.support.corpus import recorded
from tests.support.painting import built
from tests.support.scaled import losses_of
from tests.support.training_graphs import SHAPES, Expected, sgd, square, vectors

pytestmark = pytest.mark.unit


def found(meta_graph, **options):
    """The losses of a graph in the form they were written down in."""
    graph, losses = losses_of(meta_graph, **options)
    return [
        Expected(
            sorted(scope.scope for scope in loss.scopes),
            len(loss.gradients),
            dict(collections.Counter(graph.view.nodes[name].op for name in loss.updates)),
            sorted(name for scope in loss.scopes for name in scope.losses),
        )
        for loss in losses
    ]


def in_order(losses):
    return sorted(losses, key=lambda loss: loss.scopes)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_shape(name):
    assert in_order(found(built(SHAPES[name].build))) == in_order(SHAPES[name].losses)


def test_a_step_whose_gradients_wait_for_another_is_a_loss_of_its_own():
    """Although one group waits for the writes of both."""

    def build():
        x, writes = tf.placeholder(tf.float32, (8, 12), "x"), []
        for name in ("one", "other"):
            with tf.control_dependencies(writes[:1]):
                w = tf.get_variable(name, (12, 4))
                (gradient,) = tf.gradients(tf.reduce_mean(tf.square(tf.matmul(x, w))), [w])
            writes.append(w.assign_sub(0.1 * gradient))
        tf.group(*writes, name="train")

    assert [loss.scopes for loss in found(built(build))] == [["gradients"], ["gradients_1"]]


# The losses of recorded graphs, by the beginning of the file's name, as their training code was
# read by hand: gradient scope, loss, and the op types that update.
RECORDED = {
    "AmmarRashed__PPOng": [
        ("gradients", "Neg", {"ApplyAdam": 8}),
        ("Critic/gradients", "Critic/Mean", {"ApplyAdam": 6}),
    ],
    "DeepBlurt__vae": [("gradients", "Mean_2", {"ApplyAdam": 26})],
    "HMS-IDAC__UNetCoreograph": [("optim/gradients", "optim/Mean", {"ApplyMomentum": 42})],
    "HuStanding__NER_IDCNN_CRF": [
        (
            "optimizer/gradients", "crf_loss/Mean",
            {"ApplyAdam": 10, "AssignSub": 2, "ScatterAdd": 4},
        ),
    ],
    "JunWeston__cifar_prediction_app": [("gradients", "total_loss", {"ApplyGradientDescent": 10})],
    "Lornatang__tensorflow-dcgan": [
        ("gradients", "add", {"ApplyAdam": 12}), ("gradients_1", "Mean_2", {"ApplyAdam": 14}),
    ],
    "XiangweiTang__Word2Vec": [("optimizer/gradients", "loss/Mean", {"ScatterSub": 3})],
    "arthurdouillard__tensorflow-faceid": [("gradients", "Mean", {"ApplyAdam": 36})],
    "captured__charrnn": [
        ("gradients", "cost/truediv_1", {"ApplyAdam": 6, "AssignSub": 1, "ScatterAdd": 2}),
    ],
    "captured__dcgan": [
        ("gradients", "add", {"ApplyAdam": 12}), ("gradients_1", "Mean_2", {"ApplyAdam": 14}),
    ],
    "captured__mnistconv": [("gradients", "add_5", {"ApplyMomentum": 8})],
    "captured__ptb": [
        (
            "Train/Model/gradients", "Train/Model/Sum_2",
            {"ApplyGradientDescent": 6, "ScatterSub": 1},
        ),
    ],
    "captured__slimhead_resnet": [("gradients", "total_loss", {"ApplyMomentum": 161})],
    "captured__tfcnn": [("tower_0/v/gradients", "tower_0/v/add", {"ApplyGradientDescent": 59})],
    "gan": [
        ("gradients", "add", {"ResourceApplyAdam": 4}),
        ("gradients_1", "Mean_2", {"ResourceApplyAdam": 2}),
    ],
    "gsurma__text_predictor": [
        ("gradients", "cost/div_1", {"ApplyAdam": 6, "AssignSub": 1, "ScatterAdd": 2}),
    ],
    "images": [("gradients", "total_loss", {"ApplyMomentum": 5})],
    "keras_layers": [("gradients", "loss", {"ResourceApplyRMSProp": 6})],
    "liu794194939__albert": [("gradients", "loss/Mean", {"Assign": 78})],
    "taiguangxing__Wide_n_deep": [
        (
            "head/gradients", "head/weighted_loss/Sum",
            {"ResourceApplyAdagrad": 6, "ResourceSparseApplyAdagrad": 2},
        ),
        (
            "head/gradients_1", "head/weighted_loss/Sum",
            {"ResourceApplyFtrl": 1, "ResourceSparseApplyFtrl": 3},
        ),
    ],
    "varunravi__DeepSpeech": [("tower_0/gradients", "tower_0/Mean", {"ApplyAdam": 14})],
    "words": [("gradients", "loss", {"ApplyAdam": 4, "AssignSub": 1, "ScatterAdd": 2})],
}  # fmt: skip


@recorded()
def test_recorded_graphs(paths):
    for path in paths:
        rows = next((rows for name, rows in RECORDED.items() if path.name.startswith(name)), None)
        if rows is None:
            continue
        meta_graph = read_graph(str(path))
        losses = found(meta_graph)
        expected = [Expected([scope], 0, updates, [loss]) for scope, loss, updates in rows]
        assert in_order([loss._replace(gradients=0) for loss in losses]) == in_order(expected), (
            path.name
        )


@recorded(slice(1, None, 6), slow=slice(None))
def test_each_variable_of_a_recorded_graph_has_one_gradient_which_is_unscaled_once(paths):
    for path in paths:
        if path.name.startswith(tuple(RECORDED)):
            check_variables(read_graph(str(path)), path.name)


def check_variables(meta_graph, name):
    converted = graphmp.convert(meta_graph)
    view = GraphView(converted.meta_graph.graph_def)
    state = State(meta_graph, GraphView(meta_graph.graph_def))
    trainable = state.collected(tf.GraphKeys.TRAINABLE_VARIABLES)
    for loss in converted.report["losses"]:
        unscaled, by_variable = set(loss["unscale"]), {}
        assert len(unscaled) == len(loss["gradients"]) == len(set(loss["gradients"])), name
        for update in loss["updates"]:
            (variable,) = state.written(update) & trainable or {""}
            by_variable.setdefault(variable, set()).update(gradients_before(view, update, unscaled))
        by_variable.pop("", None)
        assert by_variable and all(len(found) == 1 for found in by_variable.values()), (
            name,
            by_variable,
        )
        assert len(set.union(*by_variable.values())) == len(by_variable) == len(unscaled), name


def gradients_before(view, update, unscaled):
    """The unscaled gradients that an update reads, itself or through the user's own math.

    Norms, which read all gradients, are not followed.
    """
    nodes, seen, waiting = view.nodes, set(), [update]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in unscaled:
            continue
        waiting += [
            port.node
            for port in view.inputs(name)
            if nodes[name].op not in ("AddN", "Pack", "L2Loss", "Switch") or "skip" in name
        ]
    return seen & unscaled


def test_two_calls_whose_gradients_are_applied_together_are_one_loss():
    def build():
        pairs = []
        for name in ("a", "b"):
            w = tf.get_variable(name, (12, 1))
            pairs += sgd().compute_gradients(square(tf.matmul(vectors(), w)), [w])
        sgd().apply_gradients(pairs)

    (loss,) = found(built(build))
    assert loss.scopes == ["gradients", "gradients_1"]


def test_two_calls_whose_gradients_are_added_up_are_one_loss():
    """Although nothing waits for the write."""

    def build():
        w = tf.get_variable("w", (12, 1), use_resource=False)
        one, other = (tf.gradients(square(tf.matmul(vectors(), w)), w)[0] for _ in range(2))
        w.assign_sub(one + other)

    (loss,) = found(built(build))
    assert loss.scopes == ["gradients", "gradients_1"]


def test_steps_on_two_devices_that_one_group_waits_for_are_one_loss():
    """The group waits for one of its own for each device."""

    def build():
        writes = []
        for number in range(2):
            with tf.device("/cpu:%d" % number):
                w = tf.get_variable("w%d" % number, (12, 1))
                (gradient,) = tf.gradients(square(tf.matmul(vectors(), w)), w)
                writes.append(w.assign_sub(gradient))
        tf.group(*writes, name="train")

    (loss,) = found(built(build))
    assert loss.scopes == ["gradients", "gradients_1"]


@pytest.mark.parametrize("through", [False, True])
def test_a_step_of_sam_is_one_loss_unless_it_is_differentiated(through):
    """Gradients at `w` move `w` uphill; those computed there are applied."""

    def build():
        x, w = vectors(), tf.get_variable("w", (12, 4))
        (uphill,) = tf.gradients(square(tf.matmul(x, w), "here"), [w])
        there = w + (uphill if through else tf.stop_gradient(uphill))
        (gradient,) = tf.gradients(square(tf.matmul(x, there), "there"), [w if through else there])
        sgd().apply_gradients([(gradient, w)], name="train")

    (loss,) = found(built(build))
    assert loss.scopes == ["gradients", "gradients_1"][through:]
