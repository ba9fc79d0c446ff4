"""Keras' experimental mixed precision of 1.15, made of Keras 2's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import internals

pytestmark = pytest.mark.skipif(internals.on_tensorflow_1(), reason="1.15.5 has its own")


@pytest.fixture
def precision():
    module = internals.fetch("graphmp.legacy.keras_precision")
    with tf.Graph().as_default():
        yield module


@pytest.fixture
def new_dtypes(precision):
    tf.keras.layers.enable_v2_dtype_behavior()
    yield
    precision.set_policy(precision.Policy("float32"))
    tf.keras.layers.disable_v2_dtype_behavior()
    internals.fetch("tf_keras.src.mixed_precision.policy")._global_policy = None


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("dynamic", (True, 2.0**15, 2000)),
        (128, (False, 128.0, None)),
        ("fixed", (False, 8.0, None)),
        ("object", (True, 4.0, 100)),
    ],
)
def test_an_optimizer_takes_every_kind_of_loss_scale(precision, scale, expected):
    objects = {
        "fixed": lambda: tf.train.experimental.FixedLossScale(8.0),
        "object": lambda: tf.train.experimental.DynamicLossScale(4.0, 100),
    }
    scale = objects[scale]() if scale in objects else scale
    inner = tf.keras.optimizers.SGD(0.1)
    optimizer = precision.LossScaleOptimizer(inner, scale)
    assert isinstance(optimizer, precision.LossScaleOptimizer)
    assert not isinstance(inner, precision.LossScaleOptimizer)
    config = optimizer.get_config()
    found = (config["dynamic"], config["initial_scale"], config["dynamic_growth_steps"])
    assert found == expected


def test_another_factor_of_a_dynamic_loss_scale_is_refused(precision):
    scale = tf.train.experimental.DynamicLossScale(4.0, 100, multiplier=4.0)
    with pytest.raises(ValueError, match="multiplied by 4"):
        precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), scale)


def test_a_policy_makes_layers_compute_in_half_precision(precision, new_dtypes):
    precision.set_policy(precision.Policy("mixed_float16", loss_scale="dynamic"))
    assert precision.global_policy().name == "mixed_float16"
    layer = tf.keras.layers.Dense(2)
    output = layer(tf.constant(np.ones([1, 3], "f")))
    assert (output.dtype, layer.kernel.dtype) == (tf.float16, tf.float32)


def test_the_policy_cannot_be_set_with_the_dtypes_of_version_1(precision):
    with pytest.raises(ValueError, match="V2 dtype behavior"):
        precision.set_policy("mixed_float16")


def test_a_loss_scale_of_a_policy_that_is_not_used_is_said(precision, recwarn):
    assert precision.Policy("mixed_float16").loss_scale == "dynamic"
    assert precision.Policy("float32").loss_scale is None
    assert not recwarn
    with pytest.warns(UserWarning, match="for 8 wrap the optimizer"):
        assert precision.Policy("mixed_float16", loss_scale=8).loss_scale == 8
