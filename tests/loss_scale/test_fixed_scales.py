"""A fixed loss scale has the same name, whatever it is made from."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.loss_scale import scales

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "make",
    [
        lambda: 8.0,
        lambda: tf.constant(8.0),
        lambda: tf.constant(8, tf.int64),
        lambda: tf.constant(8.0, name="graphmp/loss_scale/of_mine"),
        lambda: lambda step: tf.cast(step, tf.float32) + 1.0,
    ],
    ids=["number", "tensor", "integer", "tensor named alike", "function"],
)
def test_a_fixed_scale_is_found_by_its_name(make, graph):
    tf.train.get_or_create_global_step()
    current = scales.make(Config.make(loss_scale=make()), "loss_scale").current
    assert current.name == "graphmp/loss_scale/current:0" and current.dtype == tf.float32
