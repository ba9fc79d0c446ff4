"""The line of `graphmp run --verify` where the step doesn't run apart from its script."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.executed import apart


def converted(made):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 8], name="x")
        hidden = tf.layers.dense(tf.reshape(made(x), [-1, 8]), 4)
        tf.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(tf.square(hidden)))
        return graphmp.convert(graph)


def verified(made):
    conversion = converted(made)
    batch = {"x:0": np.ones([4, 8], "f")}
    return apart.verified_apart(conversion.original, conversion.meta_graph, batch)


def test_a_python_function_is_named():
    def in_python(x):
        made = tf.py_func(lambda v: v[:, None] * np.eye(8), [x], tf.float64, name="doubled")
        return tf.ensure_shape(tf.cast(tf.matrix_diag_part(made), tf.float32), [4, 8])

    line = verified(in_python)
    assert line == (
        "not verified: py_func doubled: its Python function is only in the script's process; to"
        " verify with values of doubled:0: --report=DIR, then graphmp verify DIR/original.meta"
        " DIR/converted.meta --data=FILE"
    )


def test_the_reason_is_in_the_line():
    line = verified(lambda x: tf.check_numerics(x / 0.0, "made"))
    assert line.startswith("not verified: the step doesn't run by itself: GMP024: ")
    assert "made : Tensor had" in line


@pytest.mark.unit
@pytest.mark.parametrize(
    "err, status, reason",
    [
        ("noise\ngraphmp: error GMP024: no step\nmore noise\n", 2, "GMP024: no step"),
        ("noise\nFatal Python error\n", -6, "Fatal Python error"),
        ("", -11, "exit status -11"),
    ],
)
def test_the_reason_of_a_command(err, status, reason):
    assert apart._reason(err, status) == reason
