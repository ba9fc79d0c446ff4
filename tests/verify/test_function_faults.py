"""Faults planted in the functions of converted graphs: none passes the proof."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import function

from graphmp.policy.dtypes import FLOAT16, FLOAT32
from graphmp.verify import verify
from tests.support.proved import converted


@function.Defun(tf.float32, tf.float32, tf.float32, func_name="layer")
def layer(x, first, second):
    """Two layers, and their difference from one of them."""
    hidden = tf.matmul(x, first, name="hidden")
    return tf.matmul(tf.nn.relu(hidden), second, name="product") - hidden, tf.nn.relu(hidden)


@pytest.fixture(scope="module")
def graphs():
    """A model whose forward pass is a function that says what runs with it, and its conversion."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 8], name="x")
        weights = [tf.get_variable(name, [8, 8]) for name in ("first", "second")]
        result, hidden = layer(x, *weights)
        loss = tf.reduce_mean(tf.square(tf.matmul(result, weights[0])) + hidden, name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        original = tf.train.export_meta_graph()
    body = forward(original)
    body.signature.control_output.append("runs")
    body.control_ret["runs"] = "hidden"
    return original, converted(original)


def copied(graph):
    """A graph that may be changed."""
    found = tf.MetaGraphDef()
    found.CopyFrom(graph)
    return found


def forward(graph):
    """The function of the forward pass that a graph calls."""
    called = {node.op for node in graph.graph_def.node}
    library = graph.graph_def.library.function
    return next(
        found
        for found in library
        if found.signature.name in called and len(found.signature.output_arg) == 2
    )


def arguments_exchanged(graph):
    first, second = forward(graph).signature.input_arg[1:]
    first.name, second.name = second.name, first.name


def results_exchanged(graph):
    first, second = forward(graph).signature.output_arg
    first.name, second.name = second.name, first.name


def another_result(graph):
    names = [each.name for each in forward(graph).signature.output_arg]
    returned = forward(graph).ret
    returned[names[0]] = returned[names[1]]


def does_not_run(graph):
    forward(graph).control_ret.clear()
    del forward(graph).signature.control_output[:]


def another_attribute(graph):
    forward(graph).attr["_noinline"].b = True


def another_attribute_of_an_argument(graph):
    forward(graph).arg_attr[1].attr["_user_specified_name"].s = b"second"


def no_body(graph):
    graph.graph_def.library.function.remove(forward(graph))


def types_that_do_not_agree(graph):
    node = next(node for node in forward(graph).node_def if node.name == "product")
    node.attr["T"].type = FLOAT32 if node.attr["T"].type == FLOAT16 else FLOAT16


@pytest.mark.unit
def test_unspoilt(graphs):
    """The conversion itself is proved."""
    assert verify(*graphs).ok


@pytest.mark.unit
@pytest.mark.parametrize(
    "fault",
    [
        arguments_exchanged,
        results_exchanged,
        another_result,
        does_not_run,
        another_attribute,
        another_attribute_of_an_argument,
        no_body,
        types_that_do_not_agree,
    ],
)
def test_fault(graphs, fault):
    """A fault is found."""
    original, proved = graphs
    planted = copied(proved)
    fault(planted)
    assert planted != proved
    assert not verify(original, planted).ok


@pytest.mark.unit
def test_arguments_that_share_a_resource(graphs):
    """Two arguments that may be one variable are so in both graphs."""
    original, planted = (copied(graph) for graph in graphs)
    if not hasattr(forward(original), "resource_arg_unique_id"):
        pytest.skip("TensorFlow 1.15 doesn't say which arguments share a resource")
    for graph in (original, planted):
        forward(graph).resource_arg_unique_id.update({1: 0, 2: 0})
    assert verify(original, planted).ok
    forward(planted).resource_arg_unique_id[2] = 1
    assert not verify(original, planted).ok
