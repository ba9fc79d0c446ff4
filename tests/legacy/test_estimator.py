"""Loading tensorflow-estimator beside a TensorFlow that has no Estimators."""

from __future__ import annotations

import types

import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.legacy.estimator import distributed, gone
from graphmp.legacy.estimator.export import estimator_export
from tests.support.estimator import needs_estimator

ON_1 = tf.VERSION.startswith("1.")
FORMS = """
import tensorflow as tf
import tensorflow.estimator as plain
from tensorflow.estimator import Estimator
from tensorflow.python.estimator import run_config
from tensorflow.python.estimator.model_fn import EstimatorSpec
from tensorflow.python.tpu import async_checkpoint, error_handling, tpu_config, tpu_context, util
from tensorflow.python.tpu.tpu_estimator import TPUEstimator
import tensorflow_estimator
print([
    tpu_config.TPUConfig is tf.contrib.tpu.TPUConfig,
    TPUEstimator is tf.contrib.tpu.TPUEstimator,
    plain.Estimator is Estimator is tf.estimator.Estimator,
    EstimatorSpec is tf.estimator.EstimatorSpec,
    run_config.RunConfig is tf.estimator.RunConfig,
    "RunConfig" in dir(tf.estimator),
    tf.contrib.tpu.TPUEstimator is tf.estimator.tpu.TPUEstimator,
    callable(tf.contrib.estimator.add_metrics),
    hasattr(tf.estimator, "nothing"),
    tf.estimator.ModeKeys.TRAIN,
])
"""
ADAPTED = """
import tensorflow.compat.v1 as tf
import tensorflow as tf2
print(tf.estimator.Estimator.__name__, tf2.estimator.Estimator.__name__,
    hasattr(tf2.estimator, "train_and_evaluate"), tf2 is tf)
"""


@needs_estimator
def test_every_form_of_import(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(FORMS)
    ended = forks.run("train.py")
    assert ended.out == "[%sFalse, 'train']\n" % ("True, " * 8), ended.err


@needs_estimator
@pytest.mark.skipif(ON_1, reason="TensorFlow 1 has one interface")
def test_a_script_that_asks_for_version_1_itself(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(ADAPTED)
    ended = forks.run("train.py")
    assert ended.out == "Estimator EstimatorV2 True False\n", ended.err


@pytest.mark.unit
def test_what_a_tpu_needs_is_named_at_its_use():
    module = gone.GoneModule("tensorflow.python.tpu.tpu_embedding")
    kind = module.AdamParameters
    assert kind is module.AdamParameters and not isinstance(3, kind)
    with pytest.raises(GraphmpError, match=r"GMP026: .*tpu_embedding.AdamParameters is not in"):
        kind(learning_rate=1.0)
    assert not hasattr(module, "__wrapped__")


@pytest.mark.unit
def test_a_name_is_exported_unchanged():
    def function():
        return 3

    assert estimator_export("estimator.function", v1=["function"])(function) is function


def run_config(**fields):
    """A RunConfig before its strategies were looked at."""
    fields = dict({"train_distribute": None, "eval_distribute": None}, **fields)
    config = types.SimpleNamespace(**{"_" + name: value for name, value in fields.items()})
    config._init_distributed_setting_from_environment_var = lambda setting: None
    return config


@pytest.mark.unit
def test_strategies_of_one_machine():
    asked = types.SimpleNamespace(train_distribute="mirrored", eval_distribute=None)
    config = run_config(experimental_distribute=asked)
    distributed.init_run_config(config, {})
    assert config._train_distribute == "mirrored" and config._eval_distribute is None
    assert not distributed.should_run_distribute_coordinator(config)
    with pytest.raises(ValueError, match="train_distribute is given"):
        distributed.init_run_config(config, {})


@pytest.mark.unit
@pytest.mark.parametrize("cluster, remote", [({"worker": ["a:1"]}, None), ({}, {"worker": ["a"]})])
def test_strategies_of_several_machines_are_refused(cluster, remote):
    asked = types.SimpleNamespace(
        train_distribute=None, eval_distribute=None, remote_cluster=remote
    )
    config = run_config(train_distribute="workers", experimental_distribute=asked)
    with pytest.raises(GraphmpError, match="GMP026: a distribution strategy of several machines"):
        distributed.init_run_config(config, {"cluster": cluster})
