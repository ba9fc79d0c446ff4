"""Proofs of steps in while loops of TensorFlow 1."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.painting import built
from tests.support.training_graphs import sgd, square, vectors


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("optimizer", [sgd, lambda: tf.train.MomentumOptimizer(0.01, 0.9)])
def test_an_iteration_that_waits_for_updates_alone_is_proved(optimizer, use_resource):
    """They die in a skipped step; what lives in their place waits for the scale's update."""

    def build():
        with tf.variable_scope("", use_resource=use_resource):
            w = tf.get_variable("w", (12, 1))
        x, trained = vectors(), optimizer()

        def body(number):
            with tf.control_dependencies([trained.minimize(square(tf.matmul(x, w)))]):
                return number + 1

        tf.identity(tf.while_loop(lambda number: number < 3, body, [0]), name="train")

    checks = graphmp.convert(built(build)).report["checks"]
    assert [row for row in checks if row["status"] == "failed"] == []
