"""Functions that nothing uses never run, and aren't counted."""

from __future__ import annotations

import importlib

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.structure.functions import unused_functions
from tests.support.structure import EYE


def _with_a_function(is_called):
    """A matmul, and one in a function."""
    defun = importlib.import_module("tensorflow.python.framework.function").Defun

    @defun(tf.float32, func_name="Product")
    def product(x):
        return tf.matmul(x, EYE)

    with tf.Graph().as_default() as graph:
        y = tf.matmul(tf.placeholder(tf.float32, [4, 4]), EYE)
        product.add_to_graph(graph)
        if is_called:
            product(y)
        return tf.train.export_meta_graph()


@pytest.mark.unit
@pytest.mark.parametrize("is_called", [True, False])
def test_a_function_counts_where_it_is_called(is_called):
    original = _with_a_function(is_called)
    assert unused_functions(original.graph_def) == (set() if is_called else {"Product"})
    result = graphmp.convert(original)
    matmuls = 1 + is_called
    assert result.report["coverage"] == {"tensor_core_ops": matmuls, "converted_ops": matmuls}
    assert not [row for row in result.report["warnings"] if row["code"] == "GMP102"]
    summary = graphmp.diff(original, result.meta_graph, result.report).summary
    assert (summary.coverage.matmuls, summary.coverage.half_matmuls) == (matmuls, matmuls)


@pytest.mark.unit
def test_what_a_function_of_a_pipeline_uses_is_used():
    defun = importlib.import_module("tensorflow.python.framework.function").Defun

    @defun(tf.float32, func_name="Inner")
    def inner(x):
        return tf.matmul(x, EYE)

    with tf.Graph().as_default() as graph:
        inner.add_to_graph(graph)
        data = tf.data.Dataset.from_tensors(tf.ones([4, 4])).map(inner)
        tf.data.make_initializable_iterator(data).get_next()
        assert not unused_functions(graph.as_graph_def())
