"""Half precision beside the original.

Within the tolerance, or within what rounding batches and weights alone changes.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from graphmp.executed.rounded import rounded
from tests.support.executed import graphs, verdicts

AGREES = "agrees in half"
TIGHT = 1e-5  # no half precision is as close


def test_rounding_batches_and_weights_is_the_measure_of_rounding():
    original, converted = graphs()
    found = verdicts(original, converted, tolerance=TIGHT)
    assert found[0][AGREES] == "proved", found[1]


def test_a_gradient_that_is_off_by_more_fails():
    original, converted = graphs()
    wrong = tf.MetaGraphDef()
    wrong.CopyFrom(converted)
    gradient = "gradients/net/MatMul_1_grad/MatMul"
    for node in wrong.graph_def.node:
        node.input[:] = ["off" if text == gradient else text for text in node.input]
    half = tf.float16.as_datatype_enum
    factor = wrong.graph_def.node.add(name="factor", op="Const")
    factor.attr["dtype"].type = half
    factor.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.05, tf.float16))
    wrong.graph_def.node.add(name="off", op="Mul", input=[gradient, "factor"]).attr["T"].type = half
    verdict, text = verdicts(original, wrong, tolerance=TIGHT)
    assert verdict[AGREES] == "failed" and "the weight gradients" in text[AGREES]


def test_what_is_rounded():
    original, _ = graphs()
    graph = rounded(original, tf.bfloat16.as_datatype_enum)
    narrow = {node.name for node in graph.graph_def.node} - {
        node.name for node in original.graph_def.node
    }
    assert {"x/narrow", "x/wide", "net/first/read/narrow", "net/second/read/wide"} <= narrow
    nodes = {node.name: node for node in graph.graph_def.node}
    assert (
        "x/wide" in nodes["net/MatMul"].input
        and nodes["train/update_net/first/ApplyMomentum"].input[0] == "net/first"
    )
    with tf.Graph().as_default():
        tf.train.import_meta_graph(graph)
