"""The tensors that a converted graph's first step measures."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.structure.view import Port
from graphmp.scaling.insertion.first_step import FirstStep, look
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support import painting

pytestmark = pytest.mark.unit

SCOPE = "graphmp/loss_scale/first_step/largest_of/"


def three_layers():
    """A net of matmuls alone."""
    top = tf.placeholder(tf.float32, [8, 4], name="x")
    for number in range(3):
        weight = tf.get_variable("w%d" % number, [4, 4], use_resource=False)
        top = tf.tanh(tf.matmul(top, weight, name="layer%d" % number))
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(top)), name="train")


def test_each_gradient_is_looked_at_once_and_so_is_what_matmuls_hand_on():
    """A variable's gradient is measured unscaled, and not again as the result of a matmul.

    Small ones are measured as one, as the finite check looks at them.
    """
    nodes = painting.nodes(graphmp.convert(painting.built(three_layers)).meta_graph)
    small = nodes["graphmp/loss_scale/small"]
    looked_at = {
        node.input[0]
        for name, node in nodes.items()
        if name.startswith(SCOPE) and node.op == "Reshape"
    }
    inside = {"gradients/layer%d_grad/MatMul" % number for number in (1, 2)}  # x is no variable
    unscaled = {
        name
        for name in nodes
        if name.startswith("graphmp/loss_scale/unscale") and nodes[name].op == "RealDiv"
    }
    assert looked_at == inside | {small.name} and len(looked_at) == 3
    rows = [nodes[name] for name in small.input[:-1]]
    assert {row.input[0] for row in rows} == unscaled and len(rows) == 3


def measured(*lines):
    """The matmuls that a first step measures, among those of gradient code."""
    meta_graph = painting.graph(
        "largest Const", "used Identity largest", "flag Const", *lines,
        largest=0.0, flag=np.bool_(True)
    )  # fmt: skip
    names = [node.name for node in meta_graph.graph_def.node]
    code = {node.name for node in meta_graph.graph_def.node if node.op == "MatMul"}
    read = [Port(name, 0) for name in names if name.startswith("read_")]
    step = FirstStep("largest", "flag", read, code)
    look(meta_graph.graph_def, [step], frozenset(["MatMul"]), OpDefs(meta_graph))
    looked_at = {node.input[0] for node in meta_graph.graph_def.node if node.op == "Reshape"}
    return looked_at.intersection(code)


def matmul(name, x):
    return "%s MatMul %s %s" % (name, x, x), "read_%s Identity %s" % (name, name)


def test_what_stays_float32_is_not_looked_at():
    assert measured(
        "x Placeholder dtype=float16", "y Placeholder dtype=float32",
        *matmul("half", "x"), *matmul("single", "y")
    ) == {"half"}  # fmt: skip


def test_what_no_gradient_needs_is_not_looked_at():
    lines = matmul("needed", "x") + ("beside MatMul x x", "summary Identity beside")
    assert measured("x Placeholder dtype=float16", *lines) == {"needed"}


def test_at_most_64_matmuls_are_looked_at():
    many = [line for number in range(129) for line in matmul("m%d" % number, "x")]
    assert 32 < len(measured("x Placeholder dtype=float16", *many)) <= 64
