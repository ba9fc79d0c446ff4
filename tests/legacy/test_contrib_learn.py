"""`tf.contrib.learn`: Experiment, RunConfig, MetricSpec and the runner."""

from __future__ import annotations

import functools
import json

import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import examples_mnist
from graphmp.legacy.contrib.learning import datasets
from graphmp.legacy.contrib.learning.metric_spec import MetricSpec
from graphmp.legacy.contrib_modules import ContribModule
from tests.support.estimator import needs_estimator
from tests.support.places import ROOT

ON_1 = tf.VERSION.startswith("1.")
SCRIPT = """
import json, sys
sys.path.insert(0, %r)
import tensorflow as tf
import tensorflow.contrib.learn as contrib
from tests.support.contrib_learning import experiment
print(json.dumps(experiment(contrib)))
"""
OF_FOLDERS = """
import tensorflow as tf
from tensorflow.contrib.learn.python.learn import learn_runner
from tensorflow.contrib.learn.python.learn.estimators import run_config
config = run_config.RunConfig(model_dir="here", num_cores=3, gpu_memory_fraction=0.5)
print([
    config.model_dir, config.save_checkpoints_secs, config.save_checkpoints_steps,
    run_config.RunConfig(save_checkpoints_steps=7).save_checkpoints_secs, config.environment,
    config.tf_config.intra_op_parallelism_threads, config.is_chief,
    config.tf_config.gpu_options.per_process_gpu_memory_fraction,
    tf.contrib.learn.learn_runner.run is learn_runner.run,
])
def refused(*arguments, **named):
    try:
        learn_runner.run(*arguments, **named)
    except (TypeError, ValueError) as error:
        return type(error).__name__
print([
    refused(lambda: 0), refused(lambda folder: 0, "out", run_config=config),
    refused(lambda output_dir: 0, "out"), refused(lambda folder: 0, "out", hparams=1),
    refused(lambda config, hparams: 0, run_config=run_config.RunConfig()),
])
"""


@pytest.mark.unit
def test_mnist(monkeypatch):
    monkeypatch.setattr(examples_mnist, "read_data_sets", lambda folder: "read " + folder)
    assert ContribModule("learn.datasets").load_dataset("mnist") == "read MNIST-data"
    assert ContribModule("learn.datasets.mnist").load_mnist("here") == "read here"
    name = "learn.python.learn.datasets.mnist"
    assert ContribModule(name).read_data_sets("there") == "read there"
    with pytest.raises(ValueError, match="only mnist is served"):
        datasets.load_dataset("iris")


@needs_estimator
def test_an_experiment_gives_what_it_gave_on_tensorflow_1(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT % str(ROOT))
    ended = forks.run("train.py", flags=["--compute_dtype=float32", "--loss_scale=none"])
    assert ended.status == 0, ended.err[-2000:]
    recorded = json.loads((ROOT / "tests/data/contrib.json").read_text())["learn"]
    found = json.loads(ended.out.splitlines()[-1])
    assert found.keys() == recorded.keys()
    for key, value in recorded.items():
        assert found[key] == (value if isinstance(value, list) else pytest.approx(value, 1e-6))


@needs_estimator
def test_run_configurations_and_what_the_runner_refuses(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(OF_FOLDERS)
    ended = forks.run("train.py")
    assert ended.status == 0, ended.err[-2000:]
    config, refused = ended.out.splitlines()[-2:]
    assert config == "['here', 600, None, None, 'local', 3, True, 0.5, True]"
    assert refused.count("ValueError") + refused.count("TypeError") == 5


@pytest.mark.unit
@pytest.mark.parametrize(
    "function, keys, found",
    [
        (lambda labels, predictions: (labels, predictions), {}, ("L", "P")),
        (lambda predictions, targets: (targets, predictions), {}, ("L", "P")),
        (lambda label, other: (label, other), {}, ("L", "P")),
        (lambda other, labels: (labels, other), {}, ("L", "P")),
        (lambda other: other, {}, "P"),
        (lambda labels, logits, weights: weights, {"weight_key": "w"}, "W"),
        (lambda labels, logits, weights=2: weights, {}, 2),
        (functools.partial(lambda labels, logits, k: (labels, k), k=3), {}, ("L", 3)),
    ],
)
def test_what_a_metric_takes(function, keys, found):
    assert MetricSpec(function, **keys).create_metric_ops({"w": "W"}, "L", "P") == found


@pytest.mark.unit
def test_keys_of_a_metric():
    def both(labels, predictions):
        return labels, predictions

    labels, predictions = {"a": 1, "b": 2}, {"c": 3}
    made = MetricSpec(both, label_key="b").create_metric_ops({}, labels, predictions)
    assert made == (2, 3)
    with pytest.raises(ValueError, match="no label_key was given, and there are"):
        MetricSpec(both).create_metric_ops({}, labels, predictions)
    with pytest.raises(ValueError, match="prediction_key='c' needs a dict"):
        MetricSpec(both, "c").create_metric_ops({}, 1, 2)
    with pytest.raises(KeyError):
        MetricSpec(both, "d").create_metric_ops({}, 1, predictions)
    with pytest.raises(ValueError, match="accepted is one of label, labels"):
        MetricSpec(lambda labels, label: 0).create_metric_ops({}, 1, 2)


@pytest.mark.skipif(ON_1, reason="TensorFlow 1 has monitors")
@pytest.mark.parametrize("path", ["learn.monitors", "learn.python.learn.monitors"])
def test_hooks_where_monitors_may_stand(path):
    """As trainers hand them on; there is no monitor to be made a hook."""
    monitors = ContribModule(path)
    hook = tf.train.StopAtStepHook(num_steps=1)
    assert monitors.replace_monitors_with_hooks([hook], None) == [hook]
    assert monitors.replace_monitors_with_hooks(None, None) == []
    with pytest.raises(TypeError, match="3 is no SessionRunHook"):
        monitors.replace_monitors_with_hooks([hook, 3], None)
