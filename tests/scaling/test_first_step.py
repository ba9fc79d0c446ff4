"""The tensors that a converted graph's first step measures."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
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
    """A variable's gradient is measured unscaled, and not again as the result of a matmul."""
    nodes = painting.nodes(graphmp.convert(painting.built(three_layers)).meta_graph)
    looked_at = {
        node.input[0]
        for name, node in nodes.items()
        if name.startswith(SCOPE) and node.op == "Reshape"
    }
    inside = {"gradients/layer%d_grad/MatMul" % number for number in range(3)}
    unscaled = {
        name
        for name in nodes
        if name.startswith("graphmp/loss_scale/unscale") and nodes[name].op == "RealDiv"
    }
    assert looked_at == inside | unscaled
    assert len(looked_at) == 6
