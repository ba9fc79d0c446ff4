"""Words of a conversion with `compute_dtype="float32"`, which only scales and clips."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.models import vectors


@pytest.mark.unit
@pytest.mark.parametrize("dtype, half", [("float32", "half precision"), ("float16", "float16")])
def test_what_computes_in_the_compute_dtype(dtype, half):
    with tf.Graph().as_default() as graph:
        x, y = vectors()
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(tf.layers.dense(x, 16), 1))
        tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    found = graphmp.convert(graph, compute_dtype=dtype)
    expected = "<graphmp.Conversion: 6 of 6 matmuls and convolutions in %s>" % dtype
    assert repr(found) == expected
    assert "between float32 and %s\n" % half in found.diff().to_text()
