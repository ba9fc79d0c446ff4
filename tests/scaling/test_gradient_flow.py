"""The destinations of gradients: losses, writes that aren't training, and gradients fed back."""

from __future__ import annotations

import collections

import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from tests.support import training_inside
from tests.support.models import two_layers
from tests.support.painting import built
from tests.support.proved import open_claims, original_and_converted
from tests.support.scaled import losses_of
from tests.support.training_graphs import SHAPES, adam, sgd, square, vectors

pytestmark = pytest.mark.unit


def updates(build, **options):
    """The op types of the updates, one Counter for each loss."""
    read, losses = losses_of(built(build), **options)
    return [
        collections.Counter(read.view.nodes[name].op for name in loss.updates) for loss in losses
    ]


@pytest.mark.parametrize("trainable, found", [(False, []), (True, [{"ScatterAdd": 1}])])
def test_gradients_scattered_into_a_table_that_is_not_trained_are_no_training(trainable, found):
    """Such as how often, or how strongly, each row was used."""

    def build():
        table = tf.get_variable("table", [20, 8], use_resource=False)
        seen = (
            table
            if trainable
            else tf.get_variable("seen", [20, 8], use_resource=False, trainable=False)
        )
        gradient = tf.gradients(square(tf.gather(table, tf.placeholder(tf.int32, (4,)))), table)[0]
        tf.scatter_add(seen, gradient.indices, gradient.values)

    assert updates(build) == found


def test_an_update_kernel_trains_whatever_the_collection_says():
    def build():
        frozen = tf.get_variable("frozen", (12, 12), trainable=False)
        loss = square(two_layers(tf.matmul(vectors(), frozen)))
        adam().minimize(loss, var_list=[frozen], name="train")

    assert updates(build) == [{"ApplyAdam": 1}]


def by_hand(written, made=lambda w, gradient: w - 0.1 * gradient):
    """A layer outside of the collection, whose gradient is written to it or to another variable."""
    frozen = tf.get_variable("frozen", (12, 12), trainable=False)
    other = tf.get_variable("other", (12, 12), trainable=False)
    loss = square(two_layers(tf.matmul(vectors(), frozen)))
    variable = {"itself": frozen, "another": other}[written]
    tf.assign(variable, made(frozen, tf.gradients(loss, [frozen])[0]), name="step")


@pytest.mark.parametrize("written, found", [("itself", [{"Assign": 1}]), ("another", [])])
def test_an_assignment_trains_what_the_loss_is_computed_of(written, found):
    """Whatever the collection has: another optimizer's variables, a perturbation, a weight."""

    def build():
        with tf.variable_scope("", use_resource=False):
            by_hand(written)

    assert updates(build) == found


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    "made",
    [
        lambda w, gradient: w - 0.1 * gradient,
        lambda w, gradient: tf.clip_by_value(w + 0.1 * tf.sign(gradient), -1.0, 1.0),
        lambda w, gradient: w - tf.matmul(tf.matrix_inverse(tf.eye(12) * 2.0), gradient),
    ],
    ids=["descent", "perturbation", "natural gradient"],
)
def test_an_assignment_by_hand_is_proved(made, use_resource):
    def model():
        with tf.variable_scope("", use_resource=use_resource):
            by_hand("itself", made)

    assert open_claims(*original_and_converted(model)) == {}


def fetched(shown=False):
    """A fetched gradient; the gradient of `tanh` isn't a copy of another node."""
    w = tf.get_variable("w", (12, 12), use_resource=False)
    (gradient,) = tf.gradients(square(tf.matmul(vectors(), tf.tanh(w))), [w])
    if shown:
        tf.summary.histogram("gradient", gradient)
    return w


def test_a_fed_gradient_is_told_from_a_fed_value():
    """The placeholder by which a user loads a variable isn't a gradient."""

    def build(train):
        w = fetched()
        value = tf.placeholder(tf.float32, w.shape)
        (w.assign if train is None else lambda g: train.apply_gradients([(g, w)]))(value)

    assert updates(lambda: build(None)) == []
    assert updates(lambda: build(sgd())) == [{"ApplyGradientDescent": 1}]


def test_a_fetched_gradient_may_be_shown_besides():
    def build():
        w = fetched(shown=True)
        sgd().apply_gradients([(tf.placeholder(tf.float32, w.shape), w)])

    _, (loss,) = losses_of(built(build))
    assert [port.node for port in loss.gradients] == ["gradients/Tanh_grad/TanhGrad"] and len(
        loss.arrivals
    ) == 1


@pytest.mark.parametrize(
    "name, fetched, arrivals",
    [
        ("plain", False, 0),
        ("accumulators", False, 4),
        ("queued", False, 4),
        ("staged", False, 4),
        ("fed_back", True, 4),
    ],
)
def test_gradients_that_leave_the_graph_are_told_from_those_that_wait_in_it(
    name, fetched, arrivals
):
    _, (loss,) = losses_of(built(SHAPES[name].build))
    assert loss.fetched == fetched and len(loss.arrivals) == arrivals


def test_sums_of_gradients_leave_a_while_loop_by_its_exit():
    """The exit that counts turns holds no gradient."""

    def build():
        x, w = vectors(), tf.get_variable("w", (12, 12))

        def body(turn, total):
            return turn + 1, total + tf.gradients(square(tf.matmul(x, w)), w)[0]

        turns, total = tf.while_loop(lambda i, _: i < 2, body, [0, tf.zeros((12, 12))])
        sgd().apply_gradients([(total / tf.cast(turns, tf.float32), w)], name="train")

    read, (loss,) = losses_of(built(build))
    assert [read.view.nodes[port.node].op for port in loss.emerging] == ["Exit"]
    assert all(map(read.is_float, loss.emerging))


def test_gradients_leave_the_first_loop_that_they_pass():
    """What a later loop makes of them needs no check of its own."""

    def build():
        x, w = vectors(), tf.get_variable("w", (12, 12))

        def add(turn, total):
            return turn + 1, total + tf.gradients(square(tf.matmul(x, w)), w)[0]

        _, total = tf.while_loop(lambda i, _: i < 2, add, [0, tf.zeros((12, 12))], name="sum")
        _, mean = tf.while_loop(lambda i, _: i < 1, lambda i, g: (i + 1, g / 2.0), [0, total])
        sgd().apply_gradients([(mean, w)], name="train")

    _, (loss,) = losses_of(built(build))
    assert [port.node.split("/")[0] for port in loss.emerging] == ["sum"]


def test_gradients_stacked_by_a_loop_of_functions_leave_it_where_the_stack_is_read():
    read, (loss,) = losses_of(training_inside.built("gradients_in_a_loop_of_functions"))
    ops = [read.view.nodes[port.node].op for port in loss.emerging]
    assert ops == ["TensorListStack", "TensorListStack"]


def test_of_many_losses_five_are_named():
    with pytest.raises(GraphmpError) as error:
        losses_of(built(SHAPES["many_agents"].build), loss="agent")
    named = ", ".join("agent_%d/loss" % i for i in range(5))
    assert str(error.value).endswith("accepted are what it starts from here: " + named)
