"""Checks of half precision simulated on small graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.audit.pair.simulate import simulated
from graphmp.policy.dtypes import FLOAT32, HALF
from tests.support import painting
from tests.support.painting import converted

SIZE = 8


FORMAT = pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])


def rounded(values, compute_dtype):
    """Float32 rounded to half precision and back, ties to even."""
    values = np.asarray(values, np.float32)
    if compute_dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def bodies(meta_graph):
    """The nodes of the graph and of each function."""
    return [
        meta_graph.graph_def.node,
        *(function.node_def for function in meta_graph.graph_def.library.function),
    ]


def dtypes_of(node):
    """Every dtype in a node's attributes, values included."""
    for attribute in node.attr.values():
        yield from [attribute.type, attribute.tensor.dtype, *attribute.list.type]


def assert_simulates(before, after):
    """Assert that all nodes are in place, and half precision occurs only in the rounding casts."""
    own = {node.name for node in before.graph_def.node}
    for nodes, others in zip(bodies(before), bodies(after)):
        assert [(node.name, node.op) for node in nodes] == [
            (node.name, node.op) for node in others
        ][: len(nodes)]
        for node in others:
            if node.op != "Cast" or FLOAT32 not in (node.attr["SrcT"].type, node.attr["DstT"].type):
                assert not set(dtypes_of(node)) & set(HALF), node
        assert all(
            "_graphmp_rounded" in node.name and node.op == "Cast"
            for node in list(others)[len(nodes) :]
        )
    for function in after.graph_def.library.function:
        signature = function.signature
        assert not {
            argument.type for argument in [*signature.input_arg, *signature.output_arg]
        } & set(HALF)
    assert own <= {node.name for node in after.graph_def.node}


def both(before, **options):
    """The converted graph and its simulation, which is checked."""
    half = converted(before, **options)
    simulation = simulated(half)
    assert_simulates(half, simulation.meta_graph)
    painting.dtypes_agree(simulation.meta_graph)
    return half, simulation


def layers():
    x, first, second, bias = (
        tf.placeholder(tf.float32, shape, name)
        for name, shape in zip(("x", "first", "second", "bias"), 3 * [[SIZE, SIZE]] + [[SIZE]])
    )
    h = tf.nn.relu(
        tf.nn.bias_add(tf.matmul(x, first, name="one"), bias, name="biased"), name="relu"
    )
    tf.identity(tf.matmul(h, second, name="two"), name="y")
