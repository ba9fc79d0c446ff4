"""Costs made of traces: functions by the paths of their nodes, half precision in whole steps."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.framework.function import Defun

import graphmp
from graphmp.session.steps.traces import Traces
from graphmp.tuning import files
from graphmp.tuning.assemble import Ran, TracedStep
from tests.support.costed import MACHINE

pytestmark = pytest.mark.unit


@Defun(tf.float32, tf.float32, func_name="layer")
def layer(x, w):
    return tf.matmul(x, w, name="mm")


@pytest.fixture
def called():
    """A graph that calls a function twice, and the node of its result."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [8, 8], name="x")
        w = tf.get_variable("w", [8, 8])
        y = tf.identity(layer(layer(x, w, name="first"), w, name="second"), name="y")
        tf.reduce_sum(y, name="sum")
        return tf.train.export_meta_graph(graph=graph)


def half_of(meta_graph):
    return graphmp.convert(meta_graph, engine="rewrite", loss_scale="none").meta_graph


def traces(meta_graph, node):
    dims = [0, 1, [8, 8]]
    tensors = {"first/" + node: [1, [dims]], "second/" + node: [1, [dims]], "y": [1, [dims]]}
    found = Traces(meta_graph, half_of(meta_graph), ["sum"], tensors)
    slow, quick = (
        TracedStep(
            {
                "first/" + node: Ran(ns, "MatMul"),
                "second/" + node: Ran(3 * ns, "MatMul"),
                "sum": Ran(1e4, "Sum"),
            }
        )
        for ns in (1e5, 2e4)
    )
    found.steps = {"float32": [slow] * 3, "half": [quick] * 3}
    found.complete = True
    return found


def matmul_of(meta_graph):
    (function,) = meta_graph.graph_def.library.function
    return next(node.name for node in function.node_def if "MatMul" in node.op)


def test_a_function_has_costs_of_its_own(called, tmp_path):
    """The kernels of both calls, on average."""
    node = matmul_of(called)
    costs = traces(called, node).costs(MACHINE, "float16", "x", 8)
    known = costs.nodes["library/layer/" + node]
    measured = costs.measurements[known.measurement]
    assert known.runs == 2
    assert (measured.float32.nanoseconds, measured.half.nanoseconds) == (2e5, 4e4)
    assert measured.signature.outputs[0].shape == (8, 8)
    path = tmp_path / "x.costs"
    path.write_bytes(files.dumps(costs))
    report = graphmp.convert(called, engine="rewrite", costs=str(path)).report
    assert report["coverage"]["converted_ops"] == report["coverage"]["tensor_core_ops"] > 0
    assert len(report["costs"]["placement"].split(",")) == 2


def test_a_function_that_is_slower_in_half_precision_stays_float32(called, tmp_path):
    node = matmul_of(called)
    found = traces(called, node)
    found.steps = {"float32": found.steps["half"], "half": found.steps["float32"]}
    path = tmp_path / "x.costs"
    path.write_bytes(files.dumps(found.costs(MACHINE, "float16", "x", 8)))
    report = graphmp.convert(called, engine="rewrite", costs=str(path)).report
    assert report["coverage"]["converted_ops"] == 0
    reasons = [row["reason"] for row in report["float32_nodes"] if row["kind"] == "measured"]
    assert any("80 µs in float32, 400 µs in float16" in reason for reason in reasons)


@pytest.mark.parametrize(
    "whole, factor",
    [
        ({"float32": [4e5] * 4, "half": [8e4] * 4}, 1.0),
        ({"float32": [4.1e5] * 4, "half": [1.36e5] * 4}, 1.5),
        ({"float32": [4.1e5] * 4, "half": [4e4, 8e4, 2e5, 3e5]}, 1.0),  # too wide to tell
        ({"float32": [], "half": []}, 1.0),
    ],
)
def test_whole_steps_beside_the_traces(called, whole, factor):
    node = matmul_of(called)
    found = traces(called, node)
    found.whole = whole
    costs = found.costs(MACHINE, "float16", "x", 8)
    assert costs.half_scale == pytest.approx(factor, rel=0.2)
    assert ("half_whole" in costs.steps) == bool(whole["half"])
