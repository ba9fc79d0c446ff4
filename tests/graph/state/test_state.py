"""Writes of variables, by kinds of ops, in serialised and live graphs."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import is_write
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.tf_hooks.op_definitions import op_definitions
from tests.support.structure import needs_tf2

pytestmark = pytest.mark.unit


def writes(graph):
    """The writes of a graph; the live graph and the serialised one must have the same."""
    meta_graph = tf.train.export_meta_graph(graph=graph)
    state = State(meta_graph, GraphView(meta_graph.graph_def), op_definitions(meta_graph))
    assert {op.name for op in graph.get_operations() if is_write(op)} - state.initializers == set(
        state.writes
    )
    return {name: set(state.written(name)) for name in state.writes}


@pytest.mark.parametrize("use_resource", [False, True])
def test_what_takes_a_variable_and_is_no_reader_writes(use_resource):
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", (4,), tf.int32, tf.zeros_initializer, use_resource=use_resource)
        w = tf.get_variable("w", (), tf.int32, tf.zeros_initializer, use_resource=use_resource)
        tf.scatter_nd_update(v, [[1]], [2], name="scattered")
        tf.raw_ops.ResourceCountUpTo(
            resource=w.handle, limit=3, T=tf.int32
        ) if use_resource else w.count_up_to(3)
        tf.gather(v, [0]), tf.is_variable_initialized(w), tf.scatter_nd([[1]], [2], [4])
        tf.train.Saver([v, w])
        tf.cond(tf.equal(w, 0), lambda: tf.group(tf.assign(w, 1, name="inside")), tf.no_op)
        found = writes(graph)
    restores = {name for name in found if name.startswith("save/")}
    assert len(restores) == 2 and len(found) == 5
    by_variable = sorted(sorted(found[name]) for name in set(found) - restores)
    assert by_variable == [["v"], ["w"], ["w"]]


def test_what_takes_a_value_of_a_reference_reads():
    """An assignment returns a reference; consumers of its value only read."""
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", (2, 2), use_resource=False)
        tf.matmul(tf.assign(v, tf.ones((2, 2)), name="first"), v.op.outputs[0])
        tf.raw_ops.AssignAdd(
            ref=tf.assign(v, tf.zeros((2, 2)), name="second"), value=tf.ones((2, 2)), name="third"
        )
        assert writes(graph) == {name: {"v"} for name in ("first", "second", "third")}


def test_what_is_no_variable_is_not_written():
    with tf.Graph().as_default() as graph:
        queue = tf.FIFOQueue(3, [tf.float32])
        queue.enqueue(1.0), queue.dequeue()
        tf.TensorArray(tf.float32, 1).write(0, 1.0).stack()
        table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
        tf.raw_ops.LookupTableInsertV2(
            table_handle=table, keys=tf.constant([1], tf.int64), values=tf.constant([2], tf.int64)
        )
        assert writes(graph) == {}


def test_a_push_into_an_accumulator_is_a_write_of_no_variable():
    with tf.Graph().as_default() as graph:
        held = tf.ConditionalAccumulator(tf.float32, ())
        push = held.apply_grad(1.0)
        held.take_grad(1), held.num_accumulated()
        assert writes(graph) == {push.name: set()}


def test_an_op_that_nobody_knows_may_write():
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", (), use_resource=False)
        tf.raw_ops.CountUpTo(
            ref=tf.get_variable("w", (), tf.int32, use_resource=False).op.outputs[0],
            limit=1,
            name="custom",
        )
        tf.assign(v, 1.0, name="known")
        meta_graph = tf.train.export_meta_graph(graph=graph)
    next(node for node in meta_graph.graph_def.node if node.name == "custom").op = "SomebodysKernel"
    meta_graph.meta_info_def.stripped_op_list.Clear()
    assert State(
        meta_graph, GraphView(meta_graph.graph_def), op_definitions(meta_graph)
    ).writes == ["custom", "known"]


@needs_tf2
def test_a_call_writes_what_its_body_does():
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", (), use_resource=True)
        tf.function(lambda: v + 1.0)()
        writing = tf.function(lambda: v.assign_add(1.0))()
        meta_graph = tf.train.export_meta_graph(graph=graph)
    state = State(meta_graph, GraphView(meta_graph.graph_def), op_definitions(meta_graph))
    call = writing.op if "Call" in writing.op.type else writing.op.inputs[0].op
    assert state.writes == [call.name] and state.written(call.name) == {"v"}
