"""The lines of `graphmp convert`."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.cli.summary import summary
from tests.support.painting import built


def net(fused):
    x = tf.layers.conv2d(tf.placeholder(tf.float32, [2, 8, 8, 8], "x"), 8, 3)
    for layer in ("first", "second"):
        x = tf.layers.batch_normalization(x, training=True, fused=fused, name=layer)
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.layers.conv2d(x, 8, 3) ** 2))


@pytest.mark.parametrize(
    "fused, said",
    [
        (
            True,
            [
                "on a GPU     TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT=1, as graphmp run sets it:"
                " no transposes around 2 batch normalizations"
            ],
        ),
        (False, []),
    ],
)
def test_batch_normalization_on_a_gpu(fused, said):
    conversion = graphmp.convert(built(lambda: net(fused)), compute_dtype="float16")
    lines = list(summary(conversion.diff(), [], "nothing"))
    known = said if tf.__version__ > "2" else []
    assert [line for line in lines if line.startswith("on a GPU")] == known


def frozen():
    tf.matmul(tf.placeholder(tf.float32, [16, 16]), tf.ones([16, 16]))


@pytest.mark.parametrize(
    "model, said",
    [
        (frozen, "no float32 variable"),
        (lambda: net(True), "12 of 12 float32, names unchanged; float32 checkpoints load"),
    ],
)
def test_variables(model, said):
    conversion = graphmp.convert(built(model), compute_dtype="float16")
    lines = list(summary(conversion.diff(), [], "nothing"))
    assert "variables    " + said in lines
