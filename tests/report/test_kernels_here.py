"""The warning about bfloat16 on a TensorFlow that has no kernels for it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.report import kernels_here
from tests.support.painting import built

OLD = tf.__version__.startswith("1.")


def network(device=""):
    """A convolution and a Tanh, of which 1.15.5 has bfloat16 kernels on XLA_CPU:0 alone."""
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], "x")
    with tf.device(device):
        y = tf.tanh(tf.layers.conv2d(x, 4, 3))
    loss = tf.reduce_mean(tf.layers.dense(tf.layers.flatten(y), 1))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    tf.global_variables_initializer()


def divided(divisor):
    """A net whose activations are divided."""

    def build():
        x = tf.placeholder(tf.float32, [2, 8, 8, 3], "x")
        hidden = tf.layers.dense(tf.layers.flatten(x), 4)
        hidden = hidden / divisor(hidden)
        loss = tf.reduce_mean(tf.layers.dense(tf.matmul(hidden, tf.ones([4, 4])), 1))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        tf.global_variables_initializer()

    return build


def by_a_constant(hidden):
    return tf.cast(tf.constant([1, 2, 3, 4]), tf.float32)


def by_a_placeholder(hidden):
    return tf.placeholder_with_default(np.float32(3), [], "by")


def said(graph, **options):
    found = graphmp.convert(graph, compute_dtype="bfloat16", **options).report["warnings"]
    return [row["message"] for row in found if row["code"] == "GMP127"]


def trains(graph, **options):
    """Whether a step in bfloat16 runs here."""
    config = tf.ConfigProto(**options)
    converted = graphmp.convert(graph, compute_dtype="bfloat16").meta_graph
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.train.import_meta_graph(converted)
        try:
            session.run("init")
            session.run("train", {"x:0": np.ones((2, 8, 8, 3))})
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
            return False
    return True


@pytest.mark.parametrize("device", ["", "/job:localhost/task:0"])
def test_what_runs_on_another_device_is_not_said(device):
    graph = built(lambda: network(device))
    assert said(graph) == [] and trains(graph)


def test_ops_that_name_a_device_without_kernels_are_said():
    graph = built(lambda: network("/cpu:0"))
    messages = said(graph)
    assert len(messages) == OLD and trains(graph) is not OLD
    for text in messages:
        assert "Conv2D" in text and "Tanh" in text and "MatMul" not in text
        assert "XLA_CPU:0 alone" in text and "allow_soft_placement=True" in text
    assert trains(graph, allow_soft_placement=True)


@pytest.mark.parametrize(
    "divisor, kept",
    [
        (by_a_constant, True),
        (lambda hidden: tf.sqrt(tf.cast(tf.constant(4), tf.float32)), True),
        (lambda hidden: tf.cast(tf.shape(hidden)[1], tf.float32), True),
        (by_a_placeholder, False),
        (lambda hidden: tf.random_uniform([4], 1.0, 2.0), False),
    ],
    ids=["constant", "root of a constant", "size", "placeholder", "random"],
)
def test_divisions_by_constants_are_kept_in_float32_on_1_15(divisor, kept):
    """Its optimizer of graphs makes a Reciprocal of them; those of a mean's gradient too."""
    graph = built(divided(divisor))
    found = graphmp.convert(graph, compute_dtype="bfloat16").meta_graph
    (division,) = (node for node in found.graph_def.node if node.name == "truediv")
    assert (division.attr["T"].type == tf.float32.as_datatype_enum) is (kept and OLD)
    assert said(graph) == [] and trains(graph)


def recurrent():
    """The results of a loop are of an op with a bfloat16 kernel on XLA_CPU:0 alone, in 1.15.5."""
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], "x")
    cell = tf.nn.rnn_cell.BasicRNNCell(4)
    hidden, _ = tf.nn.dynamic_rnn(cell, tf.reshape(x, [2, 8, 24]), dtype=tf.float32)
    loss = tf.reduce_mean(tf.layers.dense(hidden, 1))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    tf.global_variables_initializer()


def test_what_takes_a_tensor_array_with_it_is_kept_in_float32_on_1_15():
    """That device can't hold one: a step ended in an InternalError."""
    graph = built(recurrent)
    found = {
        node.name: node
        for node in graphmp.convert(graph, compute_dtype="bfloat16").meta_graph.graph_def.node
    }
    (result,) = (node for name, node in found.items() if name.endswith("basic_rnn_cell/Tanh"))
    assert (result.attr["T"].type == tf.float32.as_datatype_enum) is OLD
    assert said(graph) == [] and trains(graph)


def own_division():
    """The model divides in bfloat16, which conversions leave as it is."""
    divided(by_a_placeholder)()
    hidden = tf.reshape(tf.get_default_graph().get_tensor_by_name("x:0"), [4, -1])
    quotient = tf.cast(hidden, tf.bfloat16) / tf.constant(3.0, tf.bfloat16)
    tf.cast(quotient, tf.float32, name="quotient")


def test_divisions_in_the_models_own_bfloat16_are_said():
    messages = said(built(own_division))
    assert len(messages) == OLD
    for text in messages:
        assert (
            "no kernel: RealDiv (1 node)" in text
            and "Set graph_options.rewrite_options.constant_folding to" in text
        )


@pytest.mark.parametrize("cured", [True, False])
@pytest.mark.parametrize(
    "build, run", [(lambda: network("/cpu:0"), []), (own_division, ["quotient:0"])]
)
def test_a_session_with_the_named_options_trains_in_silence(build, run, cured):
    config = tf.ConfigProto(allow_soft_placement=cured)
    if cured:
        rewrites = config.graph_options.rewrite_options
        rewrites.constant_folding = rewrites.OFF
    with tf.Graph().as_default(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build()
        with graphmp.Session(config=config, compute_dtype="bfloat16") as session:
            session.run("init")
            trained = True
            try:
                session.run(["train", *run], {"x:0": np.ones((2, 8, 8, 3))})
            except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
                trained = False
    assert trained is (cured or not OLD)
    assert any("GMP127" in str(each.message) for each in caught) is not trained


@pytest.mark.unit
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_types_have_kernels(dtype):
    graph = built(lambda: network("/cpu:0"))
    assert not [
        row
        for row in graphmp.convert(graph, compute_dtype=dtype).report["warnings"]
        if row["code"] == "GMP127"
    ]


@pytest.mark.unit
def test_ops_are_named_and_counted(monkeypatch):
    """Of an older TensorFlow the most frequent three are named; what it doesn't know isn't."""
    monkeypatch.setattr(tf, "__version__", "1.15.5")
    graph = tf.GraphDef()
    for number, op in enumerate(
        ("Tanh", "Tanh", "Conv2D", "Sigmoid", "Elu", "Selu", "MatMul", "Identity", "NoSuchOp")
        + ("Einsum",)
    ):
        node = graph.node.add(name="node%d" % number, op=op, device="/device:CPU:0")
        node.attr["T"].type = tf.bfloat16.as_datatype_enum
    function = graph.library.function.add()
    function.node_def.extend(graph.node[:1])
    missing, placed = (row["message"] for row in kernels_here.missing_kernels(graph))
    assert missing.startswith("TensorFlow 1.15.5 has no bfloat16 kernels for Einsum (1 node): tr")
    assert placed.startswith(
        "TensorFlow 1.15.5 has bfloat16 kernels for Tanh, Conv2D, Sigmoid and 2 more (7 nodes) on"
    )
