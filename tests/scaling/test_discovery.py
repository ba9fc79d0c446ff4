"""Gradient code is found in graphs whose names don't tell."""

from __future__ import annotations

import collections
import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.control_flow import control_flow
from tests.support.corpus import corpus_graphs
from tests.support.proved import open_claims
from tests.support.renaming import conversion, random_names, renamed
from tests.support.scaled import losses_of, shaped
from tests.support.structure import TF2, of_op
from tests.support.training_graphs import SHAPES

pytestmark = pytest.mark.unit


def found(meta_graph):
    """For each loss the number of its gradients, and of its updates by op type."""
    graph = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph))
    nodes = graph.view.nodes
    rows = []
    for loss in find_losses(graph, Config.make()):
        updates = collections.Counter(nodes[name].op for name in loss.updates)
        rows.append((len(loss.gradients), sorted(updates.items())))
    return sorted(rows)


# Values don't show where the second call starts: the nodes between the two are differentiated
# like the rest, as one call.
AS_ONE_CALL = {"given_by_another_gradient"}


QUICK = ("Pong_model", "vae__model", "Word2Vec", "captured__dcgan", "faceid")
RECORDED = [
    pytest.param(
        path,
        id=path.stem,
        marks=[] if any(part in path.name for part in QUICK) else pytest.mark.slow,
    )
    for path in corpus_graphs()
]


def weighted_loss(x, first, second):
    """A loss divided by the sum of its weights, which are ones, and an epsilon."""
    weights = tf.ones([4, 2])
    errors = tf.square(tf.matmul(tf.tanh(tf.matmul(x, first)), second)) * weights
    return tf.reduce_sum(errors / (weights + 1e-12))


def shared_by_branches(x, first, second):
    """Each branch of a tf.cond uses the same weight; the gradients are added up outside."""
    hidden = tf.matmul(x, first)
    scale = tf.get_variable("scale", [6])
    taken = tf.cond(
        tf.reduce_sum(x) > 0,
        lambda: tf.nn.tanh(hidden * scale),
        lambda: tf.nn.relu(hidden * scale + scale),
    )
    return tf.reduce_mean(tf.square(tf.matmul(taken, second)))


def frozen_normalisation(x, first, second):
    """Factors and offsets of a normalisation with constant statistics, used twice."""
    variance, factor = (
        tf.get_variable(name, [6], initializer=tf.ones_initializer(), trainable=name == "factor")
        for name in ("variance", "factor")
    )
    by = factor * tf.rsqrt(variance + 1e-3)
    hidden = tf.nn.relu(tf.matmul(x, first) * by)
    return tf.reduce_mean(tf.square(tf.matmul(hidden * by, second)))


def looped(x, first, second):
    """A weight that a while loop reads in each iteration."""
    again = tf.get_variable("again", [6, 6])
    _, hidden = tf.while_loop(
        lambda i, h: i < 3,
        lambda i, h: (i + 1, tf.tanh(tf.matmul(h, again))),
        [0, tf.matmul(x, first)],
    )
    return tf.reduce_mean(tf.square(tf.matmul(hidden, second)))


def of_towers(gradients):
    """Means over the towers, of which there is only one, as in programs for several GPUs."""
    return [
        tf.reduce_mean(tf.concat([tf.expand_dims(gradient, 0)], 0), 0) for gradient in gradients
    ]


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("loss", [weighted_loss, shared_by_branches, frozen_normalisation, looped])
def test_where_gradient_code_ends(graph, loss, averaged):
    """The same by structure as by names, and the conversion is verified."""
    x = tf.placeholder(tf.float32, [4, 8], "x")
    value = loss(x, tf.get_variable("first", [8, 6]), tf.get_variable("second", [6, 2]))
    variables = tf.trainable_variables()
    gradients = tf.gradients(value, variables)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer.apply_gradients(
        zip(of_towers(gradients) if averaged else gradients, variables), name="train"
    )
    meta_graph = tf.train.export_meta_graph(graph=graph)
    meta_graph.ClearField("collection_def")
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    one, other = conversion(meta_graph, names), conversion(renamed(meta_graph, names), {})
    assert other.losses == one.losses and other.warnings == one.warnings
    assert not open_claims(
        renamed(meta_graph, names), graphmp.convert(renamed(meta_graph, names)).meta_graph
    )


def test_ones_like_a_value_start_gradients(graph):
    """Ones that the user gives, and no fill."""
    w = tf.get_variable("w", [8, 6])
    value = tf.reduce_mean(tf.square(tf.matmul(tf.placeholder(tf.float32, [4, 8], "x"), w)))
    (gradient,) = tf.gradients(value, w, grad_ys=tf.raw_ops.OnesLike(x=value))
    tf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, w)], name="train")
    meta_graph = tf.train.export_meta_graph(graph=graph)
    meta_graph.ClearField("collection_def")
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    one, other = conversion(meta_graph, names), conversion(renamed(meta_graph, names), {})
    assert len(one.losses) == 1 and other.losses == one.losses


def unnamed(graph):
    """The graph as it is, and with names that don't tell."""
    meta_graph = tf.train.export_meta_graph(graph=graph)
    meta_graph.ClearField("collection_def")
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    return meta_graph, renamed(meta_graph, names)


def calls(meta_graph):
    """For each loss the number of its calls of `tf.gradients`."""
    return [len(loss.scopes) for loss in losses_of(meta_graph)[1]]


def step(value, variables, **options):
    """A training step on the given variables."""
    gradients = tf.gradients(value, variables, **options)
    return tf.train.GradientDescentOptimizer(0.1).apply_gradients(zip(gradients, variables))


def test_zeros_beside_gradients_are_gradients(graph):
    """A split whose second half is unused has zeros as its gradient."""
    x, w = tf.tanh(tf.placeholder(tf.float32, [4, 8], "x")), tf.get_variable("w", [8, 6])
    used, _ = tf.split(tf.matmul(x, w), 2, 1)
    step(tf.reduce_mean(tf.square(used)), [w])
    one, other = map(found, unnamed(graph))
    assert one == other == [(1, [("ApplyGradientDescent", 1)])]


def test_an_integer_argument_of_a_function_starts_no_gradients(graph):
    """The function reads a value that a matmul reads too, as gradient code does."""
    function = importlib.import_module("tensorflow.python.framework.function")

    @function.Defun(tf.float32, tf.int32, func_name="times")
    def times(x, number):
        return x * tf.cast(number, tf.float32)

    x, frozen = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("frozen", [8, 8])
    hidden = tf.matmul(x, frozen) + times(x, tf.placeholder(tf.int32, [], "number"))
    v = tf.get_variable("v", [8, 2])
    step(tf.reduce_mean(tf.square(tf.matmul(hidden, v))), [v])
    assert [calls(each) for each in unnamed(graph)] == [[1], [1]]


def test_a_quotient_by_a_function_of_a_variable_is_no_gradient(graph):
    """The variable is written by hand; gradients are products with functions of it."""
    w = tf.get_variable("w", [3])
    w.assign(tf.ones([3]) / (w + 2))
    assert [found(each) for each in unnamed(graph)] == [[], []]


def test_ones_ahead_of_tied_weights_start_no_gradients(graph):
    """The second matmul contracts the other dimension of the weight, but depends on the first."""
    tied, bias = tf.get_variable("tied", [8, 6]), tf.get_variable("bias", [6])
    hidden = tf.tanh(tf.matmul(tf.ones([4, 8]), tied) + bias)
    step(tf.reduce_mean(tf.square(tf.matmul(hidden, tied, transpose_b=True))), [bias])
    assert [calls(each) for each in unnamed(graph)] == [[1], [1]]


def test_gradient_code_of_one_product_ends_behind_it(graph):
    """Its last node restores the variable's shape."""
    w = tf.get_variable("w", [2, 3])
    step(tf.square(tf.reshape(w, [6])), [w])
    _, other = unnamed(graph)
    (loss,) = losses_of(other)[1]
    (update,) = of_op(other, "ApplyGradientDescent")
    assert str(loss.gradients[0]) == update.input[2]


def test_given_gradients_behind_another_step_are_a_loss_of_their_own(graph):
    x, w, v = (
        tf.placeholder(tf.float32, [4, 8], "x"),
        tf.get_variable("w", [8, 6]),
        tf.get_variable("v", [8, 6]),
    )
    first = step(tf.reduce_mean(tf.square(tf.matmul(x, w))), [w])
    with tf.control_dependencies([first]):
        step(tf.matmul(tf.tanh(x), v), [v], grad_ys=tf.placeholder(tf.float32, [4, 6], "given"))
    one, other = map(found, unnamed(graph))
    assert one == other == [(1, [("ApplyGradientDescent", 1)])] * 2


def walks(steps, monkeypatch):
    """How often descendants are looked for in a graph of gated steps, which doesn't train."""
    calls, descendants = [], GraphView.descendants

    def counting(*args, **kwargs):
        calls.append(1)
        return descendants(*args, **kwargs)

    with tf.Graph().as_default(), monkeypatch.context() as patch:
        hidden, w = tf.placeholder(tf.float32, [4, 4]), tf.get_variable("w", [4, 4])
        for _ in range(steps):
            kept = tf.sigmoid(tf.matmul(hidden, w))
            hidden = kept * hidden + (1.0 - kept) * tf.tanh(hidden)
        meta_graph = tf.train.export_meta_graph()
        patch.setattr(GraphView, "descendants", counting)
        assert not TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph)).discovered
    return len(calls)


def test_ones_that_start_no_gradients_are_not_followed_through_the_graph(monkeypatch):
    assert walks(20, monkeypatch) == walks(5, monkeypatch)


def test_a_variable_is_no_given_gradient(graph):
    """Although the gradients of the layer before are multiples of a weight."""
    x, w, v = (
        tf.placeholder(tf.float32, [4, 8], "x"),
        tf.get_variable("w", [8, 6]),
        tf.get_variable("v", [6, 2]),
    )
    value = tf.matmul(tf.tanh(tf.matmul(x, w)), v)
    step(value, [w], grad_ys=tf.placeholder(tf.float32, [4, 2], "given"))
    _, other = unnamed(graph)
    (loss,) = losses_of(other)[1]
    (seed,) = loss.scopes[0].seeds
    assert {node.name: node.op for node in other.graph_def.node}[seed.node] == "Placeholder"


def test_gradient_code_ends_ahead_of_means_over_towers(graph):
    x, w = tf.tanh(tf.placeholder(tf.float32, [4, 8], "x")), tf.get_variable("w", [8, 6])
    gradients = tf.gradients(tf.reduce_mean(tf.square(tf.matmul(x, w))), [w])
    tf.train.GradientDescentOptimizer(0.1).apply_gradients([(of_towers(gradients)[0], w)])
    _, other = unnamed(graph)
    (loss,) = losses_of(other)[1]
    assert [
        port.node in [node.name for node in of_op(other, "MatMul")] for port in loss.gradients
    ] == [True]


def test_a_bias_that_is_fed_back_is_found_behind_its_activation(graph):
    """The sum over its broadcast dimension belongs to the addition."""
    x, w, b = (
        tf.placeholder(tf.float32, [4, 8], "x"),
        tf.get_variable("w", [8, 6]),
        tf.get_variable("b", [6]),
    )
    tf.gradients(tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, w) + b))), [w, b])
    tf.train.GradientDescentOptimizer(0.1).apply_gradients(
        [(tf.placeholder(tf.float32, v.shape), v) for v in (w, b)]
    )
    one, other = map(found, unnamed(graph))
    assert one == other == [(2, [("ApplyGradientDescent", 2)])]


def test_gradients_of_a_product_start_at_it(graph):
    """And not at the initialisation of its weight, which reads the variable too."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    v = tf.get_variable("v", [6, 2])
    step(tf.matmul(tf.tanh(tf.matmul(x, w)), v, name="product"), [w, v])
    meta_graph, other = unnamed(graph)
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    (loss,) = losses_of(other)[1]
    assert loss.scopes[0].losses == (names["product"],)


def test_a_node_is_gradient_code_of_one_call_though_both_are_its_factors(graph):
    """The gradient of a penalty multiplies values of both calls."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    (inner,) = tf.gradients(tf.tanh(tf.matmul(x, w)), x)
    step(tf.reduce_mean(tf.square(inner)), [w])
    _, other = unnamed(graph)
    code = TrainingGraph(other, Config.make(), OpDefs(other)).code
    assert len(code) == 2 and set.intersection(*code.values()) == set()


def test_what_gradient_code_computes_from_values_alone_belongs_to_their_op(graph):
    """The sigmoid in the gradient of a softplus."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    y = tf.nn.softplus(tf.matmul(x, w), name="y")
    step(tf.reduce_mean(tf.square(y)), [w])
    meta_graph = tf.train.export_meta_graph(graph=graph)
    meta_graph.ClearField("collection_def")
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    other = renamed(meta_graph, names)
    read = TrainingGraph(other, Config.make(), OpDefs(other))
    (sigmoid,) = of_op(other, "Sigmoid")
    assert read.differentiated(sigmoid.name) == names["y"]


def in_branches(h, x, w):
    return tf.cond(h[0, 0] > 0, lambda: tf.matmul(h, w), lambda: tf.matmul(h, 2.0 * w))


LOOPS = {
    "one product": lambda h, x, w: h + tf.matmul(x, w),
    "two weights": lambda h, x, w: tf.tanh(tf.matmul(h, w)) + tf.matmul(x, 2.0 * w),
    "two products": lambda h, x, w: tf.tanh(tf.matmul(tf.matmul(h, w), w)),
    "in branches": in_branches,
}


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("turn", LOOPS.values(), ids=LOOPS)
def test_gradients_by_a_weight_of_a_loop_alone(graph, turn, use_resource):
    """What its matmuls read enters a loop forward and backward, or waits on a stack."""
    if turn is in_branches and use_resource and not TF2:
        pytest.skip("TensorFlow 1.15.5 takes no gradient of it")
    x = tf.placeholder(tf.float32, [12, 12])
    w = tf.get_variable("w", [12, 12], use_resource=use_resource)
    with control_flow(functions=False):
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, turn(h, x, w)), [0, x])
    step(tf.reduce_mean(tf.square(y)), [w])
    meta_graph, other = unnamed(graph)
    assert found(other) == found(meta_graph) and len(found(meta_graph)) == 1


def exported(name):
    meta_graph = tf.train.export_meta_graph(graph=shaped(name))
    meta_graph.ClearField("collection_def")
    return meta_graph


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_losses_of_renamed_graphs(name):
    meta_graph = exported(name)
    assert found(
        renamed(meta_graph, random_names(meta_graph, len(meta_graph.graph_def.node), 7))
    ) == found(meta_graph)


@pytest.mark.unit
@pytest.mark.parametrize("name", ["gan", "gan_in_turn"])
@pytest.mark.parametrize("scope", ["D/gradients", "G/gradients"])
def test_gradient_code_is_found_beside_code_that_names_tell(name, scope):
    """As of a graph that a part without names was imported into; and if that waits for the rest."""
    meta_graph = exported(name)
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    names = {old: new for old, new in names.items() if old.startswith(scope + "/")}
    losses = losses_of(renamed(meta_graph, names))[1]
    assert sorted(len(loss.gradients) for loss in losses) == [4, 4]
    assert sorted(name for loss in losses for s in loss.scopes for name in s.losses) == [
        "D/loss",
        "G/loss",
    ]


@pytest.mark.parametrize("name", sorted(set(SHAPES) - AS_ONE_CALL))
def test_renamed_graphs_are_converted_alike(name):
    meta_graph = exported(name)
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    one, other = conversion(meta_graph, names), conversion(renamed(meta_graph, names), {})
    assert other.half == one.half
    assert other.losses == one.losses
    assert other.warnings == one.warnings


@pytest.mark.corpus
@pytest.mark.parametrize("path", RECORDED)
def test_recorded_graphs_are_converted_alike(path):
    """Names of losses may differ: only gradient code shows where their values are computed.

    So may the dtypes of nodes that no write depends on.
    """
    meta_graph = tf.MetaGraphDef.FromString(path.read_bytes())
    meta_graph.ClearField("collection_def")
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    one, other = conversion(meta_graph, names), conversion(renamed(meta_graph, names), {})
    view = GraphView(meta_graph.graph_def)
    taken = view.ancestors(State(meta_graph, view, OpDefs(meta_graph).get).writes, control=False)
    assert {names[name] for name in taken}.isdisjoint(set(other.half) ^ set(one.half))
    assert sorted(row[1:] for row in other.losses) == sorted(row[1:] for row in one.losses)
    assert other.warnings == one.warnings


def without_names(graph):
    """A graph whose names don't tell, as loss scaling reads it, and its names by the old ones."""
    meta_graph = tf.train.export_meta_graph(graph=graph)
    meta_graph.ClearField("collection_def")
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    meta_graph = renamed(meta_graph, names)
    return TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph)), names


def test_the_gradient_by_a_constant_is_known_by_it(graph):
    """A power's gradient multiplies by the exponent, and a product's by its constant factor."""
    x, w = tf.placeholder(tf.float32, [4, 8]), tf.get_variable("w", [8, 6])
    y = tf.matmul(x, w)
    gate = 0.5 * (1.0 + tf.tanh(0.8 * (y + 0.04 * tf.pow(y, 3.0, name="cube"))))
    loss = tf.reduce_sum(tf.matmul(y * gate, tf.transpose(w)))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    read, names = without_names(graph)
    gradient = names["gradients/cube_grad/mul"]
    assert names["cube/y"] in read.view.nodes[gradient].input
    assert read.forward[gradient] == names["cube"]


def test_a_factor_behind_the_last_matmul_is_trained(graph):
    """Its gradient holds no matmul; an update kernel takes it."""
    x, factor = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("factor", [6])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, tf.ones([8, 6])) * factor))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    read, _ = without_names(graph)
    (loss,) = find_losses(read, Config.make())
    assert len(loss.gradients) == len(loss.updates) == 1


def test_gradients_that_a_loop_weighs_and_sums_end_ahead_of_the_weights(graph):
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])

    def turn(i, total):
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
        return i + 1, total + 0.5 * tf.gradients(loss, w)[0]

    _, total = tf.while_loop(lambda i, _: i < 3, turn, [0, tf.zeros([8, 6])])
    tf.train.GradientDescentOptimizer(0.1).apply_gradients([(total, w)])
    read, _ = without_names(graph)
    (loss,) = find_losses(read, Config.make())
    assert [read.view.nodes[port.node].op for port in loss.gradients] == ["MatMul"]


def test_a_sum_over_broadcast_dimensions_belongs_to_the_node_that_broadcasts(graph):
    """Its gradients come from another sum: the gradient of a tile."""
    factor, w = tf.get_variable("factor", [1, 6]), tf.get_variable("w", [8, 6])
    scaled = tf.multiply(factor, tf.matmul(tf.placeholder(tf.float32, [4, 8], "x"), w), "scaled")
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.nn.l2_loss(tf.tile(scaled, [2, 1])))
    read, names = without_names(graph)
    assert read.differentiated(names["gradients/scaled_grad/Sum"]) == names["scaled"]


@pytest.mark.parametrize("between, near", [(10, True), (11, False)])
def test_a_forward_node_is_found_up_to_twelve_steps_away(graph, between, near):
    w = tf.get_variable("w", [8, 6])
    value = tf.tanh(tf.matmul(tf.placeholder(tf.float32, [4, 8], "x"), w), "bounded")
    for _ in range(between):
        value = -value
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.nn.l2_loss(value))
    read, names = without_names(graph)
    known = read.differentiated(names["gradients/bounded_grad/TanhGrad"])
    assert known == (names["bounded"] if near else None)


def forward_of(graph, loss, gradient):
    """The forward node of a node of gradient code whose names don't tell, by its old name."""
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    read, names = without_names(graph)
    return {names[name]: name for name in names}.get(read.differentiated(names[gradient]))


def product(rows=4):
    """The product of rows of a batch and a weight."""
    x = tf.placeholder(tf.float32, [rows, 8])
    return tf.matmul(x, tf.get_variable("w_%d" % len(tf.trainable_variables()), [8, 6]))


def test_a_sum_behind_a_product_of_unknown_shapes_belongs_to_the_product(graph):
    scaled = tf.multiply(product(None), product(None), "scaled")
    assert forward_of(graph, tf.nn.l2_loss(scaled), "gradients/scaled_grad/Sum") == "scaled"


def test_behind_a_constant_factor_the_gradient_is_that_of_the_other(graph):
    """A leaky unit reads its input directly and by such a product."""
    hidden = product(None)
    loss = tf.nn.l2_loss(tf.maximum(hidden, tf.multiply(0.2, hidden, "leak")))
    assert forward_of(graph, loss, "gradients/leak_grad/Mul_1") == "leak"


def test_the_gradient_of_a_mean_is_known_by_the_shape_of_its_input(graph):
    hidden = product(None)
    loss = tf.nn.l2_loss(hidden - tf.reduce_mean(tf.tanh(hidden), 0, name="mean"))
    assert forward_of(graph, loss, "gradients/mean_grad/truediv") == "mean"


def test_a_gradient_op_is_known_by_its_inputs_where_its_name_is_not_the_forward_ops(graph):
    """The gradient of FusedBatchNormV3 is FusedBatchNormGradV3."""
    scale, offset = (tf.get_variable(name, [6]) for name in ("scale", "offset"))
    rows = tf.reshape(product(), [4, 1, 1, 6])
    normed, _, _ = tf.nn.fused_batch_norm(rows, scale, offset, name="norm")
    found = forward_of(graph, tf.nn.l2_loss(normed), "gradients/norm_grad/FusedBatchNormGradV3")
    assert found == "norm"


def test_a_sum_by_axes_of_constant_shapes_belongs_to_the_node_that_broadcasts(graph):
    """As 1.15.5 sums the gradient of a bias; newer versions read off the axes themselves."""

    @tf.custom_gradient
    def shifted(x, bias):
        def gradient(dy):
            axes = tf.raw_ops.BroadcastGradientArgs(s0=[4, 6], s1=[6])
            return dy, tf.reshape(tf.reduce_sum(dy, axes.r1, name="summed"), [6])

        return tf.add(x, bias, "shifted"), gradient

    loss = tf.nn.l2_loss(tf.tanh(shifted(product(), tf.get_variable("bias", [6]))))
    assert forward_of(graph, loss, "gradients/IdentityN_grad/summed") == "shifted"


def test_a_negated_gradient_that_is_reshaped_is_no_sum_over_broadcast_dimensions(graph):
    """It belongs to the origin of its gradients, not to the sum with a bias before."""
    hidden = product() + tf.get_variable("bias", [6])
    loss = tf.nn.l2_loss(tf.tanh(-tf.reshape(hidden, [6, 4]), "bounded"))
    assert forward_of(graph, loss, "gradients/Neg_grad/Neg") == "bounded"


def test_a_constant_factor_of_given_gradients_is_not_their_start(graph):
    """Although as many gradients are multiples of it."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    given = tf.placeholder(tf.float32, [4, 6], "given")
    step(0.5 * tf.matmul(tf.tanh(x), w), [w], grad_ys=given)
    _, other = unnamed(graph)
    (loss,) = losses_of(other)[1]
    (seed,) = loss.scopes[0].seeds
    assert {node.name: node.op for node in other.graph_def.node}[seed.node] == "Placeholder"


def test_a_constant_of_ones_starts_gradients(graph):
    """Of a change that no update kernel makes."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    (gradient,) = tf.gradients(tf.matmul(tf.tanh(x), w), w, grad_ys=tf.ones([4, 6]))
    w.assign_sub(0.1 * gradient)
    one, other = map(found, unnamed(graph))
    assert len(one) == 1 and other == one


def gradients_of_a_loop(graph, states, turn):
    """Op types of gradients by which a while loop changes variables that start at zeros.

    `turn` makes the variables of an iteration from the ones before and its gradient.
    """
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])

    def body(i, *before):
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
        return (i + 1, *turn(before, tf.gradients(loss, w)[0]))

    found = tf.while_loop(lambda i, *_: i < 3, body, [0, *[tf.zeros([8, 6])] * states])
    tf.train.GradientDescentOptimizer(0.1).apply_gradients([(sum(found[1:]), w)])
    read, _ = without_names(graph)
    (loss,) = find_losses(read, Config.make())
    return [read.view.nodes[port.node].op for port in loss.gradients]


LOOP_VARIABLES = {  # how many, the next ones, and where gradient code ends
    "sums": (1, lambda before, g: [before[0] + g], ["Exit"]),
    "sums of one iteration": (1, lambda before, g: [g + g], ["MatMul"]),
    "sums of each other": (2, lambda before, g: [before[1] + g, before[0] + g], ["MatMul"]),
    "bounded sums": (1, lambda before, g: [tf.tanh(before[0]) + g], ["MatMul"]),
}


@pytest.mark.parametrize("name", sorted(LOOP_VARIABLES))
def test_only_sums_over_all_iterations_belong_to_gradient_code(graph, name):
    states, turn, ends = LOOP_VARIABLES[name]
    assert gradients_of_a_loop(graph, states, turn) == ends


def test_an_update_by_other_numbers_is_no_gradient(graph):
    """It doesn't depend on the variable that it changes."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    noise, v = tf.placeholder(tf.float32, [6], "noise"), tf.get_variable("v", [6])
    step(tf.reduce_mean(tf.square(tf.matmul(x, w) + v)), [w])
    tf.train.GradientDescentOptimizer(0.1).apply_gradients([(2 * noise, v)])
    one, other = map(found, unnamed(graph))
    assert one == other == [(1, [("ApplyGradientDescent", 1)])]


def test_ones_in_a_product_with_rows_of_a_weight_start_no_gradients(graph):
    """Both matmuls contract its first dimension: one of them transposes it."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    v = tf.get_variable("v", [6, 2])
    columns = tf.matmul(w, tf.ones([8, 1]), transpose_a=True)
    hidden = tf.matmul(x, w) * tf.reshape(columns, [6])
    step(tf.reduce_mean(tf.square(tf.matmul(tf.tanh(hidden), v))), [v])
    assert [calls(each) for each in unnamed(graph)] == [[1], [1]]


@pytest.mark.parametrize("ahead, tried", [(99, True), (100, False)])
def test_given_gradients_are_sought_among_a_hundred_inputs(graph, ahead, tried):
    """Two of them are the variable's initial value and the learning rate."""
    inputs = [tf.placeholder(tf.float32, [4, 8]) for _ in range(ahead - 2)]
    w = tf.get_variable("w", initializer=np.zeros([8, 6], np.float32))
    given = tf.placeholder(tf.float32, [4, 6], "given")
    step(tf.matmul(tf.add_n(inputs), w), [w], grad_ys=given)
    meta_graph = tf.train.export_meta_graph(graph=graph)
    meta_graph.ClearField("collection_def")
    nodes = sorted((node.name == "given", node.name) for node in meta_graph.graph_def.node)
    names = {name: "node/%04d" % place for place, (_, name) in enumerate(nodes)}
    assert bool(found(renamed(meta_graph, names))) == tried


def test_weights_of_one_loss_may_start_gradients_of_another(graph):
    """By a factor, which is ones too; most of the first loss's gradients are no multiples of them."""
    x, w = tf.placeholder(tf.float32, [4, 8], "x"), tf.get_variable("w", [8, 6])
    weights, product = tf.ones([4, 6]), tf.matmul(x, w)
    step(tf.reduce_sum(tf.square(product * weights * weights) * weights), [w])
    (gradient,) = tf.gradients(product, w, grad_ys=weights * tf.ones([4, 6]))
    w.assign_sub(0.1 * gradient)
    assert [calls(each) for each in unnamed(graph)] == [[1, 1], [1, 1]]


def test_weights_of_the_gradients_of_two_terms_do_not_start_them(graph):
    """Although all gradients are multiples of such ones, and the true start is further away."""

    @tf.custom_gradient
    def weighed(term):
        return tf.identity(term), lambda gradient: gradient * tf.ones([4, 6])

    x = tf.placeholder(tf.float32, [4, 8], "x")
    variables = [tf.get_variable(name, [8, 6]) for name in "vw"]
    terms = [weighed(tf.square(tf.matmul(x, variable))) for variable in variables]
    step(terms[0] + terms[1], variables)
    assert [calls(each) for each in unnamed(graph)] == [[1], [1]]
