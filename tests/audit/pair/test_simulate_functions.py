"""Simulated half precision in functions and loops."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support import painting
from tests.support.control_flow import control_flow
from tests.support.painting import built
from tests.support.simulated import FORMAT, SIZE, both, rounded

EYE = np.float32(np.eye(SIZE) * 1.0001)  # 1 in half precision


def of_function():
    function = tf.function(lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, EYE)), EYE))
    tf.identity(function(tf.placeholder(tf.float32, [SIZE, SIZE], "x")), name="y")


def of_nested_functions():
    inner = tf.function(lambda x: tf.matmul(x, EYE))
    outer = tf.function(lambda x: inner(tf.nn.relu(inner(x))))
    tf.identity(outer(tf.placeholder(tf.float32, [SIZE, SIZE], "x")), name="y")


def of_defun():
    defun = importlib.import_module(
        "tensorflow.python.framework.function"
    ).Defun  # exported nowhere else

    @defun(tf.float32, func_name="Twice")
    def twice(x):
        return tf.matmul(tf.matmul(x, EYE), EYE)

    tf.identity(twice(tf.placeholder(tf.float32, [SIZE, SIZE], "x")), name="y")


def of_loop():
    """Two steps of a matmul, the loop's results gathered in an array."""
    x = tf.placeholder(tf.float32, [SIZE, SIZE], "x")

    def body(i, h, seen):
        h = tf.matmul(h, EYE)
        return i + 1, h, seen.write(i, h)

    _, h, seen = tf.while_loop(
        lambda i, *_: i < 2, body, [0, x, tf.TensorArray(tf.float32, 2, element_shape=[SIZE, SIZE])]
    )
    tf.identity(tf.matmul((h + seen.read(1)) * 0.5, EYE), name="y")


def of_branch():
    x = tf.placeholder(tf.float32, [SIZE, SIZE], "x")
    h = tf.cond(tf.reduce_sum(x) > -1e9, lambda: tf.matmul(x, EYE), lambda: tf.zeros_like(x))
    tf.identity(tf.matmul(h, EYE), name="y")


@pytest.fixture(params=[False, True], ids=["nodes", "functions"])
def of_functions(request):
    """Whether loops and branches are functions: both kinds."""
    with control_flow(request.param):
        yield request.param


def assert_as_numpy(build, compute_dtype):
    """A product with a matrix that half precision rounds to the identity.

    The rounded input comes out again.
    """
    before = built(build)
    _, simulation = both(before, compute_dtype=compute_dtype)
    x = np.random.RandomState(0).uniform(1, 2, (SIZE, SIZE)).astype(np.float32)
    (y,) = painting.values(simulation.meta_graph, ["y:0"], {"x:0": x})
    np.testing.assert_array_equal(y, rounded(x, compute_dtype))
    (original,) = painting.values(before, ["y:0"], {"x:0": x})
    assert (np.abs(original - x) > 1e-4).all()


@FORMAT
@pytest.mark.parametrize("build", [of_function, of_nested_functions, of_defun])
def test_functions(build, compute_dtype):
    assert_as_numpy(build, compute_dtype)


@FORMAT
@pytest.mark.parametrize("build", [of_loop, of_branch])
def test_control_flow(of_functions, build, compute_dtype):
    assert_as_numpy(build, compute_dtype)
