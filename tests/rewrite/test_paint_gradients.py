"""The painter's rules for gradient code, as tables of tiny graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support import painting
from tests.support.painting import decide, graph


def _weight_gradients(count, between=()):
    """A variable used by `count` matmuls, and the sum of its gradients."""
    numbers = range(1, count + 1)
    lines = [
        "x Placeholder shape=[4,4]",
        "v VariableV2 shape=[4,4] dtype=float32",
        "read Identity v",
        "rate Const",
    ]
    lines += ["m%d MatMul x read" % i for i in numbers]
    lines += ["gradients/m%d_grad/MatMul MatMul x x" % i for i in numbers]
    lines += [
        "gradients/AddN AddN %s" % " ".join("gradients/m%d_grad/MatMul" % i for i in numbers),
        *between,
    ]
    return graph(
        *lines,
        "train ApplyGradientDescent v rate %s"
        % (between[-1].split()[0] if between else "gradients/AddN"),
        rate=0.1,
    )


@pytest.mark.unit
@pytest.mark.parametrize("count, half", [(2, False), (3, False), (8, False), (9, True), (20, True)])
def test_sums_of_a_variables_gradients(count, half):
    painted = decide(_weight_gradients(count))
    assert ("gradients/AddN" in painted.half) == half
    if not half:
        assert (
            painted.reasons["gradients/AddN"] == "sum of a variable's gradients: adds up in float32"
        )
    assert {"gradients/m%d_grad/MatMul" % i for i in range(1, count + 1)} <= painted.half
    assert painted.reasons["train"] == "variable: reads v"


@pytest.mark.unit
def test_a_sum_that_goes_on_in_gradient_code_is_half():
    """Only a sum that leaves gradient code is a variable's."""
    lines = ["gradients/a_grad/MatMul MatMul gradients/AddN x"]
    meta_graph = _weight_gradients(2, ["a MatMul x x", *lines])
    assert "gradients/AddN" in decide(meta_graph).half


@pytest.mark.unit
@pytest.mark.parametrize(
    "op, half", [("Mul gradients/AddN x", True), ("Identity gradients/AddN", False)]
)
def test_a_sum_that_gradient_code_computes_with_is_half(op, half):
    """No matmul follows. A sum that is only passed on is still a variable's gradient."""
    assert (
        "gradients/AddN" in decide(_weight_gradients(2, ["gradients/n_grad/n " + op])).half
    ) == half


def test_gradients_of_a_dense_net(graph):
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [8, 4], name="x")
    hidden = tf.layers.dense(x, 8, tf.nn.relu, name="one")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 8, name="two")), name="loss")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    matmuls = {name for name, node in painting.nodes(meta_graph).items() if node.op == "MatMul"}
    assert len(matmuls) == 6 and matmuls <= painted.half
    assert {"gradients/one/Relu_grad/ReluGrad", "one/BiasAdd", "one/Relu"} <= painted.half
    assert {
        "gradients/%s/BiasAdd_grad/BiasAddGrad" % name for name in ("one", "two")
    } & painted.half
    assert (
        not {
            "Square",
            "loss",
            "gradients/Square_grad/Mul",
            "gradients/Square_grad/Mul_1",
            "gradients/loss_grad/truediv",
        }
        & painted.half
    )
    assert painted.reasons["gradients/Square_grad/Mul_1"] in (
        "gradient of a denied op: Square",
        "infer: downstream of what computes in float32",
    )
    updates = [
        name
        for name, node in painting.nodes(meta_graph).items()
        if node.op.startswith("ApplyGradient")
    ]
    assert len(updates) == 4 and all(
        painted.reasons[name].startswith("variable: reads ") for name in updates
    )
    after = painting.verified(meta_graph)
    feeds = {"x:0": np.random.RandomState(0).rand(8, 4)}
    painting.assert_close(
        meta_graph, after, ["loss:0", "one/kernel/read:0"], feeds, first=["train"] * 3
    )


@pytest.mark.parametrize(
    "build, forward",
    [
        (tf.exp, "Exp"),
        (lambda x: tf.log(x + 3.0), "Log"),
        (tf.square, "Square"),
        (lambda x: tf.pow(x + 3.0, 2.5), "Pow"),
        (lambda x: tf.rsqrt(x + 3.0), "Rsqrt"),
        (tf.expm1, "Expm1"),
        (lambda x: tf.squared_difference(x, 1.0), "SquaredDifference"),
    ],
)
def test_gradient_of_a_denied_op_that_is_not_linear(build, forward, graph):
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.constant(np.eye(4, dtype=np.float32) * 0.5, name="w")
    y = tf.matmul(build(tf.matmul(x, w)), w)
    gradient = tf.gradients(tf.matmul(tf.nn.relu(y), w), x)[0]
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    below = [name for name in painted.reasons if "/%s_grad/" % forward in name and "." not in name]
    multiplied = [
        name
        for name in below
        if painting.nodes(meta_graph)[name].op
        in ("Mul", "Neg", "Pow", "Sub", "Add", "AddV2", "RsqrtGrad", "RealDiv")
    ]
    assert (
        multiplied
        and not {
            name
            for name in multiplied
            if painting.nodes(meta_graph)[name].op in ("Mul", "RsqrtGrad")
        }
        & painted.half
    )
    assert (
        any(painted.reasons[name] == "gradient of a denied op: %s" % forward for name in multiplied)
        or forward == "Rsqrt"
    )  # on the list
    painting.verified(meta_graph, [gradient.name], rtol=3e-2)


def test_softmax_before_a_loss_and_its_gradient(graph):
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(np.eye(4, dtype=np.float32) * 0.5, name="w", use_resource=False)
    softmax = tf.nn.softmax(tf.matmul(x, w), name="softmax")
    loss = -tf.reduce_mean(tf.log(softmax), name="loss")
    gradient = tf.gradients(loss, w)[0]
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    assert painted.reasons["softmax"] == "last activation: Softmax leads to a loss or an output"
    assert not {name for name in painted.half if "softmax" in name or "loss" in name}
    assert (
        "gradients/MatMul_grad/MatMul_1" in painted.half
        and "gradients/softmax_grad/mul" in painted.reasons
    )
    painting.verified(
        meta_graph, [loss.name, gradient.name], feeds={"x:0": np.random.RandomState(0).rand(4, 4)}
    )


def test_gates_of_a_recurrent_cell_are_half(graph):
    """A Sigmoid ahead of another matmul isn't a final activation; that of the last step is."""
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    w = tf.get_variable("w", [10, 4], initializer=tf.initializers.orthogonal(seed=1))
    state = tf.zeros([4, 4])
    for step in range(3):
        gate = tf.sigmoid(tf.matmul(tf.concat([x, state], 1), w), name="gate%d" % step)
        state = tf.multiply(gate, tf.tanh(gate), name="state%d" % step)
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    assert {"gate0", "gate1", "state0", "state1"} <= painted.half and not {
        "gate2",
        "state2",
    } & painted.half
    painting.verified(meta_graph, ["state2:0"])
