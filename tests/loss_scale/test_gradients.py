"""The finite check and the unscale, on lists of gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.loss_scale import scales
from graphmp.loss_scale.gradients import all_finite, all_finite_by_sums, unscale

SIZES = (2, 3, 1)


@pytest.fixture
def gradients(graph):
    """A dense gradient, None, a sparse one, another dense one; all are fed."""
    dense, rows, last = (
        tf.placeholder(tf.float32, [size], name="g%d" % n) for n, size in enumerate(SIZES)
    )
    return [dense, None, tf.IndexedSlices(rows, tf.constant([4, 0, 4])), last]


def feed(bad=None, value=None):
    """Ones, but for one value."""
    fed = {"g%d:0" % number: np.ones(size, np.float32) for number, size in enumerate(SIZES)}
    if bad is not None:
        fed["g%d:0" % bad][-1] = value
    return fed


@pytest.mark.parametrize("check", [all_finite, all_finite_by_sums])
def test_one_value_of_any_gradient_decides(gradients, check):
    finite = check(gradients, "loss_scale")
    with tf.Session() as session:
        assert session.run(finite, feed())
        for bad in range(len(SIZES)):
            for value in (np.inf, -np.inf, np.nan):
                assert not session.run(finite, feed(bad, value)), (bad, value)


def test_every_kind_of_gradient_is_divided(gradients):
    scale = scales.make(Config.make(loss_scale=4.0), "loss_scale")
    dense, nothing, sparse, last = unscale(scale, gradients)
    with tf.Session() as session:
        for found in session.run([dense, sparse.values, last], feed()):
            assert (found == 0.25).all()
        assert nothing is None and session.run(sparse.indices).tolist() == [4, 0, 4]
