"""Function bodies are rewritten inside; signatures stay."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.functions import called_functions
from tests.support.control_flow import control_flow
from tests.support.painting import built, converted, rewrite, verified
from tests.support.structure import EYE, _cond, _loop, _loop_with_gradient, codes, of_op
from tests.support.tiny import FLOAT16


def _functions(meta_graph):
    return {function.signature.name: function for function in meta_graph.graph_def.library.function}


def assert_rewritten_inside(before, after, op="MatMul"):
    """Check that all called functions with such an op have it in half.

    Signatures must not change.
    """
    found, called = 0, called_functions(before.graph_def)
    for name, function in _functions(after).items():
        assert function.signature == _functions(before)[name].signature
        if name not in called:
            assert function == _functions(before)[name]
            continue
        dtypes = {node.attr["T"].type for node in function.node_def if node.op == op}
        assert dtypes <= {FLOAT16}
        found += len(dtypes)
    assert found


def _called():
    function = tf.function(lambda x: tf.exp(tf.matmul(tf.nn.relu(tf.matmul(x, EYE)), EYE)))
    tf.identity(function(tf.placeholder(tf.float32, [4, 4], name="x")), name="y")


def test_partitioned_call():
    before = built(_called)
    assert of_op(before, "PartitionedCall", "StatefulPartitionedCall")
    assert_rewritten_inside(before, verified(before, ["y:0"]))


def test_defun():
    defun = importlib.import_module("tensorflow.python.framework.function").Defun

    def build():
        @defun(tf.float32, func_name="Twice")
        def twice(x):
            return tf.matmul(tf.tanh(tf.matmul(x, EYE)), EYE), tf.exp(x)

        one, two = twice(tf.placeholder(tf.float32, [4, 4], name="x"))
        tf.identity(one, name="y"), tf.identity(two, name="z")

    before = built(build)
    assert of_op(before, "Twice")
    assert_rewritten_inside(before, verified(before, ["y:0", "z:0"]), "BatchMatMulV2")


@pytest.mark.unit
def test_functions_have_no_unknown_ops():
    assert "GMP109" not in codes(rewrite(built(_called)))


@pytest.fixture
def control_flow_v2():
    with control_flow(functions=True):
        yield


def test_while_of_functions(control_flow_v2):
    before = built(_loop)
    assert of_op(before, "While", "StatelessWhile")
    assert_rewritten_inside(before, verified(before, ["loss:0"]))


def test_gradient_of_a_while_of_functions(control_flow_v2):
    before = built(_loop_with_gradient)
    assert of_op(before, "While", "StatelessWhile")
    assert_rewritten_inside(before, verified(before, ["loss:0", "gradient:0"], rtol=3e-2))


def test_if_of_functions(control_flow_v2):
    before = built(_cond)
    assert of_op(before, "If", "StatelessIf")
    assert_rewritten_inside(before, verified(before, ["loss:0"]))


def test_nested_functions_are_rewritten_too():
    def build():
        inner = tf.function(lambda x: tf.matmul(x, EYE))
        outer = tf.function(lambda x: inner(tf.nn.relu(inner(x))))
        tf.identity(outer(tf.placeholder(tf.float32, [4, 4], name="x")), name="y")

    before = built(build)
    assert len(_functions(before)) >= 2
    assert_rewritten_inside(before, verified(before, ["y:0"]))


def test_a_function_with_batch_normalisation():
    def build():
        filters = np.full([3, 3, 4, 4], 0.05, np.float32)

        def model(x):
            x, _, _ = tf.nn.fused_batch_norm(
                tf.nn.conv2d(x, filters, 1, "SAME"), tf.ones([4]), tf.zeros([4])
            )
            return tf.nn.conv2d(tf.tanh(x), filters, 1, "SAME")

        tf.identity(
            tf.function(model)(tf.placeholder(tf.float32, [2, 4, 4, 4], name="x")), name="y"
        )

    before = built(build)
    assert_rewritten_inside(before, verified(before, ["y:0"], rtol=2e-2), "Conv2D")


def _shared_with_data(shared):
    """A function that the graph calls; with `shared`, the input pipeline too."""

    def build():
        function = tf.function(
            lambda x: tf.matmul(x, EYE), input_signature=[tf.TensorSpec([4, 4], tf.float32)]
        )
        other = tf.function(
            lambda x: tf.matmul(x, EYE), input_signature=[tf.TensorSpec([4, 4], tf.float32)]
        )
        data = tf.data.Dataset.from_tensors(EYE).map(function if shared else other)
        batch = (
            tf.data.make_one_shot_iterator(data).get_next()
            if shared is None
            else tf.data.make_initializable_iterator(data).get_next()
        )
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        tf.identity(function(x), name="y"), tf.identity(batch, name="batch")

    return built(build)


@pytest.mark.parametrize("shared", [False, True])
def test_functions_of_the_input_pipeline_are_left_alone(shared):
    before = _shared_with_data(shared)
    after = verified(before, ["y:0"])
    called = {
        node.attr["f"].func.name
        for node in of_op(before, "PartitionedCall", "StatefulPartitionedCall")
    }
    mapped = {
        node.attr["f"].func.name
        for node in of_op(before, "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")
    }
    assert called and mapped
    for name, function in _functions(before).items():
        changed = function != _functions(after)[name]
        assert not changed or name in called
    rewritten = {
        name for name, function in _functions(before).items() if function != _functions(after)[name]
    }
    assert bool(rewritten) != shared


@pytest.mark.unit
def test_an_unknown_op_in_a_function_leaves_the_function():
    before = built(_called)
    function = next(
        f
        for f in before.graph_def.library.function
        if any(node.op == "MatMul" for node in f.node_def)
    )
    function.node_def.add(name="own", op="MyOp")
    after = converted(before)
    assert (
        next(
            f
            for f in after.graph_def.library.function
            if f.signature.name == function.signature.name
        )
        == function
    )
