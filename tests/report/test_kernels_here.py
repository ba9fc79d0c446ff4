"""The warning about bfloat16 on a TensorFlow that has no kernels for it."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.report import kernels_here
from tests.support.painting import built

OLD = tf.__version__.startswith("1.")


def network():
    """A convolution, a Tanh and a matmul; 1.15.5 has a bfloat16 kernel for the last."""
    x = tf.placeholder(tf.float32, [2, 8, 8, 3], "x")
    x = tf.tanh(tf.layers.conv2d(x, 4, 3))
    loss = tf.reduce_mean(tf.layers.dense(tf.layers.flatten(x), 1))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def said(compute_dtype):
    found = graphmp.convert(built(network), compute_dtype=compute_dtype).report["warnings"]
    return [row["message"] for row in found if row["code"] == "GMP127"]


@pytest.mark.unit
def test_ops_without_bfloat16_kernels_are_named():
    messages = said("bfloat16")
    assert len(messages) == OLD
    for text in messages:
        assert "Conv2D" in text and "Tanh" in text and "MatMul" not in text


@pytest.mark.unit
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_types_have_kernels(dtype):
    assert said(dtype) == []


@pytest.mark.unit
def test_more_ops_are_counted(monkeypatch):
    """Of an older TensorFlow the most frequent three are named; what it doesn't know isn't."""
    monkeypatch.setattr(tf, "__version__", "1.15.5")
    graph = tf.GraphDef()
    for number, op in enumerate(
        ("Tanh", "Tanh", "Conv2D", "Sigmoid", "Elu", "Selu", "MatMul", "Identity", "NoSuchOp")
    ):
        node = graph.node.add(name="node%d" % number, op=op)
        node.attr["T"].type = tf.bfloat16.as_datatype_enum
    (row,) = kernels_here.missing_kernels(graph)
    assert row["code"] == "GMP127"
    assert row["message"].startswith(
        "TensorFlow 1.15.5 has no bfloat16 kernels for Tanh, Conv2D, Sigmoid and 2 more (6 nodes):"
    )
