"""Simulated half precision in variables, Stacks and TensorArrays."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.audit.pair.simulate import simulated
from graphmp.policy.dtypes import FLOAT32, HALF
from tests.support import painting
from tests.support.painting import built
from tests.support.simulated import FORMAT, both, layers, rounded


def normalised():
    x = tf.placeholder(tf.float32, [4, 6, 6, 3], "x")
    h = tf.nn.conv2d(
        x,
        np.random.RandomState(0).normal(size=(3, 3, 3, 8)).astype(np.float32),
        1,
        "SAME",
        name="conv",
    )
    y, mean, _ = tf.nn.fused_batch_norm(
        h,
        np.linspace(1, 2, 8, dtype=np.float32),
        np.linspace(-1, 1, 8, dtype=np.float32),
        name="norm",
    )
    tf.identity(
        tf.nn.conv2d(tf.nn.relu(y), np.full((1, 1, 8, 4), 0.1, np.float32), 1, "SAME"), name="y"
    )
    tf.identity(mean, name="mean")


@FORMAT
def test_batch_normalisation_keeps_its_statistics(compute_dtype):
    before = built(normalised)
    half, simulation = both(before, compute_dtype=compute_dtype)
    types = {
        node.name: {name: attribute.type for name, attribute in node.attr.items()}
        for node in half.graph_def.node
        if node.name == "norm"
    }
    assert types["norm"]["T"] in HALF and types["norm"]["U"] == FLOAT32
    assert "norm" in simulation.rounded and "norm:1" not in simulation.rounded
    feeds = painting.placeholders(before)
    y, statistics = painting.values(
        simulation.meta_graph, [simulation.rounded["norm"] + ":0", "norm:1"], feeds
    )
    np.testing.assert_array_equal(y, rounded(y, compute_dtype))
    assert (statistics != rounded(statistics, compute_dtype)).any()
    painting.assert_close(
        before,
        simulation.meta_graph,
        ["y:0", "mean:0"],
        feeds,
        0.02 if compute_dtype == "float16" else 0.1,
    )


def test_every_half_output_has_its_rounded_value():
    before = built(normalised)
    half, simulation = both(before)
    named = painting.nodes(half)
    exact = ("Const", "Identity", "Relu", "Reshape")  # what they give is rounded already
    assert {name.split(":")[0] for name in simulation.rounded} == {
        name for name in painting.half_nodes(half) if named[name].op not in exact
    }
    feeds, texts = painting.placeholders(before), sorted(simulation.rounded)
    for text, value in zip(
        texts,
        painting.values(
            simulation.meta_graph, [simulation.rounded[text] + ":0" for text in texts], feeds
        ),
    ):
        np.testing.assert_array_equal(value, rounded(value, "float16"), err_msg=text)


@pytest.mark.unit
def test_control_inputs_stay():
    before = painting.graph(
        "x Placeholder shape=[2,2]", "a MatMul x x", "b MatMul a a ^a", "c Tanh b ^a ^b"
    )
    _, simulation = both(before)
    nodes = painting.nodes(simulation.meta_graph)
    assert nodes["b"].input[2:] == ["^a"] and nodes["c"].input[1:] == ["^a", "^b"]


@pytest.mark.unit
def test_a_float32_graph_is_left_alone():
    before = built(layers)
    simulation = simulated(before)
    assert simulation.meta_graph == before and simulation.rounded == {}


@pytest.mark.unit
def test_functions_of_variable_type_stay():
    before = built(layers)
    function = before.graph_def.library.function.add()
    function.signature.name = "any"
    function.signature.attr.add(name="T", type="type")
    function.signature.input_arg.add(name="x", type_attr="T")
    node = function.node_def.add(name="c", op="Const")
    node.attr["dtype"].type = tf.float16.as_datatype_enum
    assert simulated(before).meta_graph.graph_def.library == before.graph_def.library


@pytest.mark.unit
def test_a_cast_without_its_type_stays():
    """TensorFlow refuses it when the graph is imported."""
    before = painting.graph("x Placeholder shape=[2,2]", "c Cast x")
    node = painting.nodes(before)["c"]
    node.attr["SrcT"].type = tf.float32.as_datatype_enum
    node.attr.pop("DstT", None)
    assert painting.nodes(simulated(before).meta_graph)["c"] == node
