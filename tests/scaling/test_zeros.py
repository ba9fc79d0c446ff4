"""Which nodes are zero, whatever is fed."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView, Port
from graphmp.scaling.degrees.zeros import Zeros
from graphmp.scaling.losses.discovery.searched import Floats
from graphmp.scaling.losses.discovery.seeds import discover
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.painting import built

pytestmark = pytest.mark.unit


def zeros(build):
    """Whether the result of a function of some zeros and a placeholder is zero."""

    def whole():
        x = tf.placeholder(tf.float32, [2, 4])
        tf.identity(build(tf.zeros([2, 4]), x), name="result")

    meta_graph = built(whole)
    view, op_defs = GraphView(meta_graph.graph_def), OpDefs(meta_graph)

    def carries(port):
        dtype = op_defs.signature(view.nodes[port.node]).outputs[port.output].dtype
        return tf.as_dtype(dtype).is_floating

    return Zeros(view, carries).has("result")


def deep(value):
    for _ in range(1500):
        value = tf.identity(value)
    return value


CASES = {
    "zeros": (lambda zero, x: zero, True),
    "a placeholder": (lambda zero, x: x, False),
    "zeros beside a value": (lambda zero, x: tf.concat([zero, x], 0), False),
    "zeros beside zeros": (lambda zero, x: tf.stack([zero, tf.zeros_like(x)]), True),
    "a product with zeros": (lambda zero, x: x * zero, True),
    "a sum with zeros": (lambda zero, x: x + zero, False),
    "filled with zeros": (lambda zero, x: tf.fill(tf.shape(x), 0.0), True),
    "deeper than Python's stack": (lambda zero, x: deep(zero), True),
    "a value deeper than Python's stack": (lambda zero, x: deep(x), False),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_zeros(case):
    build, expected = CASES[case]
    assert zeros(build) == expected


def test_discovery_walks_no_deeper_than_pythons_stack():
    """A chain that is added to a multiple of ones."""

    def build():
        w = tf.get_variable("w", [4])
        far = deep(tf.placeholder(tf.float32, [4]))
        tf.identity(tf.add(tf.ones([4]) * w, far), name="sum")

    view = GraphView(built(build).graph_def)
    floats = Floats(lambda port: view.nodes[port.node].op != "NoOp", frozenset())
    assert discover(view, floats, {Port("sum", 0): {"w"}}, [], []) == []
