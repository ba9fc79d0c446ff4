"""Iterations of while loops from the graph alone, and their effect on an LSTM of 200 steps."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.shapes.trip_counts import trip_counts, trips
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import BFLOAT16, FLOAT16, FLOAT32
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs

pytestmark = pytest.mark.unit


def view_of(graph):
    return GraphView(with_inferred_shapes(graph.as_graph_def()))


def count_up(condition, start=0, step=1):
    """A loop that adds ones, and its gradient."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [5], name="x")
        total = tf.while_loop(condition, lambda i, v: (i + step, v * 1.5), (start, x))[1]
        tf.gradients(tf.reduce_sum(total), [x])
    return sorted(trip_counts(view_of(graph)).values())


def bounded_by_shape(i, v):
    return i < tf.shape(v)[0]


@pytest.mark.parametrize(
    "condition, start, counts",
    [
        (lambda i, v: i < 7, 0, [7, 7]),
        (lambda i, v: i <= 7, 0, [8, 8]),
        (lambda i, v: tf.greater(7, i), 2, [5, 5]),
        (lambda i, v: tf.logical_and(i < 9, i < 4), 0, [4, 4]),
        (lambda i, v: tf.logical_and(i < 9, tf.reduce_sum(v) < 100.0), 0, [9, 9]),
        (lambda i, v: i < 0, 0, [1, 1]),
        (lambda i, v: i < tf.minimum(6, tf.maximum(1, 3)), 0, [3, 3]),
        (lambda i, v: tf.reduce_sum(v) < 100.0, 0, []),
        (lambda i, v: tf.not_equal(i, 5), 0, []),
    ],
)
def test_loops_forward_and_backward(condition, start, counts):
    assert count_up(condition, start) == counts


def test_a_step_of_two_is_not_counted():
    assert count_up(lambda i, v: i < 8, 0, 2) == []


def test_a_bound_by_a_fed_number_is_unknown():
    with tf.Graph().as_default() as graph:
        steps = tf.placeholder(tf.int32, [])
        tf.while_loop(lambda i, v: i < steps, lambda i, v: (i + 1, v * 2.0), (0, tf.ones([3])))
    assert trip_counts(view_of(graph)) == {}


def test_nested_loops_multiply():
    with tf.Graph().as_default() as graph:

        def outer(i, v):
            inner = tf.while_loop(
                lambda j, w: j < 3, lambda j, w: (j + 1, tf.tanh(w, name="deep")), (0, v)
            )[1]
            return i + 1, inner

        tf.while_loop(lambda i, v: i < 5, outer, (0, tf.ones([3])))
    view = view_of(graph)
    inside, counts = frames(view), trip_counts(view)
    deep = next(name for name in view.nodes if name.endswith("deep"))
    assert trips(inside, counts, deep) == 15
    assert trips(inside, {}, deep) == 32 * 32
    assert trips(inside, counts, "no/loop") == 1


def lstm(steps):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [steps, 16, 64], name="x")
        cell = tf.nn.rnn_cell.LSTMCell(64)
        top, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, time_major=True)
        loss = tf.losses.sparse_softmax_cross_entropy(
            tf.placeholder(tf.int32, [steps, 16]), tf.layers.dense(top, 32)
        )
        tf.train.AdamOptimizer().minimize(loss)
        return tf.train.export_meta_graph()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_lstm_of_200_steps(dtype):
    """No weight is cast in a loop, forward or backward.

    Values saved for the backward pass and the TensorArray of the input are half.
    """
    half = {"float16": FLOAT16, "bfloat16": BFLOAT16}[dtype]
    meta_graph = lstm(200)
    converted = rewrite(
        meta_graph, Config.make(compute_dtype=dtype, loss_scale="none"), Policy.default(dtype)
    ).meta_graph
    graph = TypedGraph(with_inferred_shapes(converted.graph_def), OpDefs(converted))
    view = graph.view
    looped = {name for name in view.nodes if graph.frame(name)}
    assert looped and {graph.trips(name) for name in looped} == {200}
    casts = [
        name
        for name in looped
        if view.nodes[name].op == "Cast" and view.nodes[name].attr["DstT"].type == half
    ]
    assert casts == [], "only gradients are cast there, to float32"
    matmuls = [view.nodes[name] for name in looped if view.nodes[name].op == "MatMul"]
    assert len(matmuls) == 3 and all(node.attr["T"].type == half for node in matmuls)
    arrays = [node for node in view.nodes.values() if node.op == "TensorArrayV3"]
    assert arrays and all(node.attr["dtype"].type == half for node in arrays)
    pushed = {
        name: view.nodes[name].attr["T"].type
        for name in looped
        if view.nodes[name].op == "StackPushV2"
    }
    wide = [name for name, dtype in pushed.items() if dtype == FLOAT32]
    assert half in pushed.values()
    assert all("flow" in name for name in wide), (
        wide
    )  # a number that orders the operations on an array


def test_a_shape_known_from_a_placeholder_alone():
    """A graph without recorded shapes.

    The placeholder's own attribute says how many steps there are.
    """
    graph_def = tf.GraphDef()
    graph_def.CopyFrom(lstm(12).graph_def)
    for node in graph_def.node:
        node.attr.pop("_output_shapes", None)
    assert set(trip_counts(GraphView(graph_def)).values()) == {12}
