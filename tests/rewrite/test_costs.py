"""The cost model in bytes.

Single tensors by hand, whole graphs against the minimum cut, and `graphmp inspect --cost`.
"""

from __future__ import annotations

import json

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.structure.gradient_code import gradient_code, idle_nodes
from graphmp.graph.structure.view import GraphView, Port
from graphmp.inspect.cost import inspect_cost
from graphmp.inspect.traffic import moves, traffic
from graphmp.policy.policy import Policy
from graphmp.rewrite.painting.paint import HALF
from graphmp.rewrite.pipeline import decide
from graphmp.rewrite.placement.costs import (
    IDLE_CAST,
    LAUNCH,
    costs,
    price,
    slowness,
    stays_in_kernel,
)
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support import commands, painting

pytestmark = pytest.mark.unit

POLICY = Policy.default("float16")
PLAIN = Config.make(loss_scale="none")


def exported(graph):
    with graph.as_default():
        return tf.train.export_meta_graph()


def typed(meta_graph):
    return TypedGraph(with_inferred_shapes(meta_graph.graph_def), OpDefs(meta_graph))


@pytest.fixture(scope="module")
def layers():
    """A matmul, bias and ReLU that another op reads, a loop, and a constant."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 10], name="x")
        product = tf.matmul(x, tf.ones([10, 20]), name="product")
        biased = tf.nn.bias_add(product, tf.constant(0.5, shape=[20]), name="biased")
        tf.nn.relu(biased, name="active")
        tf.matmul(tf.sin(product, name="sine"), tf.ones([20, 5]), name="alone")
        tf.while_loop(
            lambda i, v: tf.reduce_sum(v) < 3.0,
            lambda i, v: (i + 1, tf.tanh(v * x, name="inside")),
            (0, x),
        )
    return typed(exported(graph))


def test_a_tensor_costs_its_elements(layers):
    elements = 32 * 20
    assert costs(layers, Port("product", 0))[:3] == (
        2 * elements,
        2 * elements,
        6 * elements + LAUNCH,
    )


def test_sending_a_tensor_is_worth_its_cast_and_a_number_is_not():
    with tf.Graph().as_default() as graph:
        pair = tf.placeholder(tf.float32, [2], name="pair")
        tf.reduce_sum(pair, name="number")
    for name, worth in (("pair", True), ("number", False)):
        cost = costs(typed(exported(graph)), Port(name, 0))
        assert (cost.sent > cost.down) is worth


def test_what_is_fused_is_neither_written_nor_read(layers):
    assert stays_in_kernel(layers, Port("biased", 0))
    assert costs(layers, Port("biased", 0))[:3] == (0, 0, 6 * 32 * 20 + LAUNCH)
    assert not stays_in_kernel(layers, Port("product", 0))  # Lgamma reads it too
    assert not stays_in_kernel(layers, Port("active", 0))


def test_a_constant_costs_no_cast(layers):
    constant = next(
        name
        for name, node in layers.view.nodes.items()
        if node.op == "Const" and name.startswith("Const")
    )
    assert costs(layers, Port(constant, 0)).up == 0


def test_a_loop_counts_32_times_and_a_cast_of_what_does_not_change_once(layers):
    inside = next(name for name in layers.view.nodes if name.endswith("inside"))
    entered = next(
        name
        for name, node in layers.view.nodes.items()
        if node.op == "Enter" and node.attr["is_constant"].b and "x" in node.input[0]
    )
    elements = 32 * 10
    assert costs(layers, Port(inside, 0))[:3] == (
        2 * elements * 32,
        2 * elements * 32,
        (6 * elements + LAUNCH) * 32,
    )
    assert costs(layers, Port(entered, 0))[:3] == (0, 2 * elements * 32, 6 * elements + LAUNCH)


def test_the_price_of_a_choice():
    """`x -> cast -> MatMul -> Lgamma`: a half matmul costs two casts and a float32 Lgamma."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        tf.identity(tf.lgamma(tf.matmul(x, x, name="product"), name="sine"), name="end")
    meta_graph = exported(graph)
    painted = decide(meta_graph, PLAIN, POLICY)[""]
    half = {number for number, p in enumerate(painted.placed) if p.colour == HALF}
    cast = 6 * 16 + LAUNCH
    # The placeholder is written; Lgamma reads and writes; the matmul's input and output are cast.
    assert price(painted.graph, half) == 2 * 16 + 2 * 16 + 2 * 16 + 2 * cast
    # Nothing is half: the placeholder is written, the matmul reads it twice and writes, Lgamma reads
    # and writes.
    assert price(painted.graph, set()) == 2 * 16 * 6


@pytest.mark.parametrize(
    "rows, slow", [(127, 0), (128, 16), ((1 << 18) - 1, 8), ((1 << 18) + 1, 8)]
)
def test_a_kernel_that_is_slow_in_half_precision(rows, slow):
    """BiasAddGrad reads `rows` x 128 numbers: float32 if these are many, with one cast for it.

    If they are too many, the cast takes longer.
    """
    wide = rows in (128, (1 << 18) - 1)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [rows, 64], name="x")
        hidden = tf.layers.dense(x, 128, tf.nn.relu, name="hidden")
        loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 16, name="out")))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    meta_graph = exported(graph)
    bias = "gradients/hidden/BiasAdd_grad/BiasAddGrad"
    painted = decide(meta_graph, PLAIN, POLICY)[""]
    (unit,) = painted.graph.units_of(bias)
    assert (painted.placed[unit].colour == HALF) != wide
    assert ("its kernel is slow in half" in painted.placed[unit].reason.text) == wide
    others = [number for number, p in enumerate(painted.placed) if p.colour == HALF]
    more = price(painted.graph, {*others, unit}) - price(painted.graph, set(others) - {unit})
    assert slowness(painted.graph, bias) == pytest.approx(slow * rows * 128, rel=1e-5)
    assert (more > 0) == wide
    assert all(
        painted.placed[painted.graph.units_of(name)[0]].colour == HALF
        for name, node in painted.graph.view.nodes.items()
        if node.op in ("MatMul", "ReluGrad")
    )


def training():
    """A small classifier with a summary beside it, and a batch of unknown size."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 16], name="x")
        top = tf.layers.dense(tf.layers.dense(x, 32, tf.nn.relu), 4)
        loss = tf.losses.sparse_softmax_cross_entropy(
            tf.placeholder(tf.int32, [None], name="y"), top
        )
        tf.summary.histogram("beside", tf.sin(top, name="beside_the_step"))
        tf.train.AdamOptimizer().minimize(loss)
    return exported(graph)


def test_a_step_is_what_the_updates_need():
    meta_graph = training()
    whole, step = moves(meta_graph), moves(meta_graph, None, {"Adam"})
    assert set(step) < set(whole)
    assert {"beside_the_step", "dense/kernel/Assign"} <= set(whole) - set(step)
    assert traffic(meta_graph, None, {"Adam"}).moved == sum(moved.bytes for moved in step.values())


def test_the_inspection_adds_up():
    meta_graph = training()
    found = inspect_cost(meta_graph, PLAIN, POLICY)
    assert found.trains and not found.error
    assert sum(row.before for row in found.ops) == found.before.moved
    assert sum(row.after for row in found.ops) == found.after.moved
    assert sum(row.bytes for row in found.casts) == found.after.cast
    wide = sum(row.float32 for row in found.ops if row.op != "Cast")
    assert sum(row.bytes for row in found.wide) == wide <= found.after.moved
    assert found.cut.free == found.cut.half + found.cut.float32 > 0
    assert found.cut.bytes <= min(found.cut.all_half, found.cut.all_float32)


def test_reasons_stand_behind_casts_and_float32():
    found = inspect_cost(training(), PLAIN, POLICY)
    assert found.casts and all(row.reason for row in found.casts)
    assert {row.to for row in found.casts} == {"float16", "float32"}
    kernel = next(
        row
        for row in found.casts
        if "kernel/read" in row.node
        or "kernel/Read" in row.node
        or "MatMul/ReadVariableOp" in row.node
    )
    assert kernel.to == "float16" and kernel.reason.split(":")[0] in ("variable", "resource")


def test_the_command(tmp_path, capfd):
    path = tmp_path / "train.meta"
    path.write_bytes(training().SerializeToString())
    status, text, _ = commands.graphmp(capfd, "inspect", path, "--cost")
    assert status == 0
    for words in (
        "moved",
        "minimum cut: of",
        "bytes by op",
        "casts that move most",
        "float32 that moves most",
        "next  ",
    ):
        assert words in text
    status, text, _ = commands.graphmp(capfd, "inspect", path, "--cost", "--json")
    found = json.loads(text)
    assert status == 0 and found["schema"] == "graphmp.cost/1"
    assert found["after"]["moved"] < found["before"]["moved"]
    assert found["model"] == {
        "cast_bytes": 6,
        "saved_bytes": 2,
        "launch_bytes": LAUNCH,
        "slow_bytes": 16,
        "slow_most_bytes": 1 << 28,
    }


def test_a_graph_without_training_counts_whole(tmp_path, capfd):
    with tf.Graph().as_default() as graph:
        tf.matmul(tf.placeholder(tf.float32, [8, 8]), tf.ones([8, 8]))
    path = tmp_path / "frozen.meta"
    path.write_bytes(exported(graph).SerializeToString())
    status, text, _ = commands.graphmp(capfd, "inspect", path, "--cost")
    assert status == 0 and "no training step" in text


def test_gradients_of_constants_lead_nowhere():
    names = [
        "x",
        "w",
        "h",
        "loss",
        "out",
        "grads/h_grad/a",
        "grads/h_grad/b",
        "grads/h_grad/c",
        "update",
        "other/h_grad/a",
    ]
    lines = ["x Placeholder", "w Const", "h Mul x w", "loss Neg h", "out Identity loss"]
    lines += [
        "grads/h_grad/a Mul loss w",
        "grads/h_grad/b Mul loss x",
        "grads/h_grad/c Neg grads/h_grad/b",
        "update Lgamma grads/h_grad/a",
    ]
    lines += ["other/h_grad/a Mul loss w"]
    graph = painting.graph(*lines)
    view = GraphView(graph.graph_def)
    assert set(names) == set(view.nodes)
    scopes = gradient_code(view)
    assert scopes == {
        "grads": {"grads/h_grad/a", "grads/h_grad/b", "grads/h_grad/c"},
        "other": {"other/h_grad/a"},
    }
    # No node of the second scope has an effect: its results are fetched.
    assert idle_nodes(view, scopes.values()) == {"grads/h_grad/b", "grads/h_grad/c"}


def test_a_cast_that_no_step_runs_costs_little():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        product = tf.matmul(x, x, name="product")
        tf.sin(product, name="sine")
        tf.matmul(product, x, name="end")
    graph = typed(exported(graph))
    half = {number for number, unit in enumerate(graph.units) if unit.node in ("product", "end")}
    running = price(graph, half)
    graph.idle = {"sine"}
    # The read by the sine and its cast, which is still one more.
    assert running - price(graph, half) == 2 * 16 + (6 * 16 + LAUNCH) - IDLE_CAST
