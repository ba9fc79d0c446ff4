"""Copies and routes of graph_editor that 1.15.5's own numbers don't show."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import internals
from graphmp.legacy.contrib_modules import ContribModule
from graphmp.legacy.operations import Outputs

pytestmark = pytest.mark.skipif(
    internals.on_tensorflow_1(), reason="1.15.5 has its own graph_editor"
)
editor = ContribModule("graph_editor")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.unit
def test_an_operation_that_reads_both_tensors_of_a_swap_gets_them_exchanged():
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    both = tf.subtract(a, b)
    assert editor.swap_ts([a], [b]) == 2
    assert [t.op.name for t in both.op.inputs] == ["b", "a"]


@pytest.mark.unit
def test_one_name_in_each_module_of_the_package():
    for module, name in (
        ("select", "get_backward_walk_ops"),
        ("transform", "graph_replace"),
        ("util", "get_generating_ops"),
        ("subgraph", "SubGraphView"),
        ("reroute", "swap_ts"),
        ("edit", "sgv"),
    ):
        assert getattr(ContribModule("graph_editor." + module), name) is getattr(editor, name)


def test_a_loop_is_copied_whole_and_runs(graph):
    start = tf.placeholder(tf.float32, [], name="start")
    end = tf.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, [start], name="double")
    end = end[0] if isinstance(end, (list, tuple)) else end
    loop = [op for op in graph.get_operations() if op.name.startswith("double")]
    _, info = editor.copy_with_input_replacements(loop, {start: tf.constant(3.0)})
    with tf.Session() as session:
        found = session.run([info.transformed(end), end], {start: 7.0})
    assert found == [192.0, 112.0]


def test_a_copy_in_another_graph_reads_placeholders_for_what_has_no_replacement():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(x, tf.constant(3.0), name="y")
    other = tf.Graph()
    view, info = editor.copy_with_input_replacements([y.op, y.op.inputs[1].op], {}, other)
    assert [t.op.type for t in view.inputs] == ["Placeholder"]
    with tf.Session(graph=other) as session:
        found = session.run(info.transformed(y), {view.inputs[0]: [1, 2]})
    np.testing.assert_array_equal(found, [3, 6])


def test_recomputed_gradients_are_those_of_the_graph():
    x = tf.constant([[0.5, -1.0]])
    weights = tf.constant([[1.0, 2.0], [3.0, -1.0]])
    kept = tf.tanh(tf.matmul(x, weights))
    loss = tf.reduce_sum(tf.sin(tf.matmul(kept, weights)))
    after = editor.get_backward_walk_ops(loss.op, stop_at_ts=[kept, weights])
    _, info = editor.copy_with_input_replacements(editor.sgv(after), {})
    cut = tf.stop_gradient(kept)
    assert editor.reroute_ts([cut], [kept], can_modify=info.transformed_ops.values()) == 1
    last = info.transformed_ops[loss.op]
    upper, of_weights = tf.gradients(Outputs().__get__(last)[0], [cut, weights])
    editor.add_control_inputs(last, [kept.op])
    recomputed = of_weights + tf.gradients(kept, weights, grad_ys=upper)[0]
    with tf.Session() as session:
        found, expected = session.run([recomputed, tf.gradients(loss, weights)[0]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert [op.name for op in last.control_inputs] == [kept.op.name]
