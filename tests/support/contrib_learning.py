"""Small programs of `tf.contrib.learn`: what they train and measure."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

_ROWS = np.array([[1, 2], [3, 1], [0, 2], [2, 2]], "f")
_TARGETS = np.array([[5], [6], [3], [6]], "f")


def _input_fn() -> Any:
    rows = {"rows": tf.constant(_ROWS), "weights": tf.constant([[1.0], [0.0], [2.0], [1.0]])}
    return rows, tf.constant(_TARGETS)


def experiment(contrib: Any) -> Dict[str, Any]:
    """An experiment of an Estimator of contrib, by a runner and with metrics."""

    def model(features: Any, labels: Any, mode: str, params: Any) -> Any:
        weights = tf.get_variable("weights", [2, 1], initializer=tf.zeros_initializer())
        found = {"sum": tf.matmul(features["rows"], weights), "first": features["rows"][:, :1]}
        if mode == contrib.ModeKeys.INFER:
            return contrib.ModelFnOps(
                mode, found, output_alternatives={"sums": (None, {"sum": found["sum"]})}
            )
        loss = tf.reduce_mean(tf.square(found["sum"] - labels))
        step = tf.train.get_global_step()
        train = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, step)
        return contrib.ModelFnOps(mode, found, loss, train)

    def metric(predictions: Any, labels: Any, weights: Any = None) -> Any:
        return tf.metrics.mean_absolute_error(labels, predictions, weights)

    def made(run_config: Any, hparams: Any) -> Any:
        estimator = contrib.Estimator(model, config=run_config, params={"rate": 0.05})
        return contrib.Experiment(
            estimator, _input_fn, _input_fn, train_steps=4, eval_steps=1,
            eval_metrics={
                "error": contrib.MetricSpec(metric, prediction_key="sum"),
                "weighted": contrib.MetricSpec(metric, "sum", weight_key="weights"),
            },
        )  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        config = contrib.RunConfig(model_dir=folder, tf_random_seed=1, save_checkpoints_steps=2)
        result, exports = contrib.learn_runner.run(made, run_config=config)
        latest = tf.train.latest_checkpoint(folder)
        variables = sorted(name for name, _ in tf.train.list_variables(latest))
        events = sorted(path.parent.name for path in pathlib.Path(folder).glob("*/events*"))
    return {
        **{name: float(value) for name, value in result.items()},
        "exports": len(exports),
        "names": ['"%s"' % name for name in variables],
        "folders": ['"%s"' % name for name in events],
    }
