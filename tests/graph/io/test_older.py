"""Graphs of a later TensorFlow in an earlier one."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.audit.options import AuditOptions
from graphmp.audit.run import audit
from graphmp.config import Config
from graphmp.conversion.convert import convert
from graphmp.graph.io.older import drop_later, imported
from graphmp.graph.shapes.shapes import inferred_shapes
from graphmp.inspect.memory.measured import measure
from graphmp.policy.tables import rows
from graphmp.tf_hooks.internals import is_op, load_graph, op_def

LATER = rows("later_attributes.txt")


def as_later(with_definitions):
    """A training graph as a TensorFlow writes it that knows more attributes than this one."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 3], "x")
        loss = tf.reduce_mean(tf.layers.dense(tf.layers.dense(x, 4, tf.nn.relu), 2) ** 2)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        meta_graph = tf.train.export_meta_graph()
    for node in meta_graph.graph_def.node:
        node.attr.pop("_output_shapes", None)
        if node.op == "MatMul" and not is_known("MatMul", "grad_a"):
            node.attr["grad_a"].b = node.name.endswith("_1")
            node.attr["grad_b"].b = False
        if node.op == "RealDiv":
            node.attr["later"].b = True
    if not with_definitions:
        meta_graph.meta_info_def.ClearField("stripped_op_list")
    return meta_graph


def is_known(op, attribute):
    return attribute in [each.name for each in op_def(op).attr]


@pytest.fixture
def unknown(monkeypatch):
    """An attribute that no TensorFlow knows is in the table."""
    monkeypatch.setitem(imported.__globals__["_LATER"], ("RealDiv", "later"), "true")


@pytest.mark.parametrize("with_definitions", [True, False])
def test_train(unknown, with_definitions):
    meta_graph = as_later(with_definitions)
    written = meta_graph.SerializeToString(deterministic=True)
    conversion = convert(meta_graph)
    assert audit(conversion, AuditOptions(steps=1)).agrees
    found = measure(meta_graph, conversion.meta_graph, Config(), 8)
    assert found.original and found.converted and not found.error
    assert meta_graph.SerializeToString(deterministic=True) == written


@pytest.mark.unit
def test_shapes_are_inferred(unknown):
    shapes = inferred_shapes(as_later(False).graph_def)
    assert [dim.size for dim in shapes["dense/MatMul"][0].dim] == [8, 4]


@pytest.mark.unit
@pytest.mark.skipif(tf.__version__ > "2", reason="ignores attributes that it doesn't know")
def test_what_changes_a_result_stays(monkeypatch):
    monkeypatch.setitem(imported.__globals__["_LATER"], ("RealDiv", "later"), "false")
    with pytest.raises(Exception, match="NodeDef mentions attr"):
        load_graph(as_later(False).graph_def)


@pytest.mark.unit
@pytest.mark.parametrize("row", LATER, ids=lambda row: row[0])
def test_the_table_has_the_defaults(row):
    """Of what this TensorFlow knows: the value in the table is the attribute's default."""
    name, _, *ops = row
    for op in ops:
        if not is_op(op) or not is_known(op, name):
            continue
        graph_def = tf.GraphDef()
        node = graph_def.node.add(name="x", op=op)
        default = next(each.default_value for each in op_def(op).attr if each.name == name)
        node.attr[name].CopyFrom(default)
        graph_def.library.function.add().node_def.add().CopyFrom(node)
        drop_later(graph_def)
        assert not node.attr and not graph_def.library.function[0].node_def[0].attr
