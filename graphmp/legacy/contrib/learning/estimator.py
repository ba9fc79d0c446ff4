"""`tf.contrib.learn.Estimator` with what its model functions return, on `tf.estimator`'s."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

__all__ = ["Estimator", "ModelFnOps", "PredictionKey"]

_MODEL_ARGUMENTS = ("mode", "params", "config", "model_dir")


class PredictionKey:
    """Names of predictions."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "output"


class _Fields(NamedTuple):
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Dict[str, Any]
    output_alternatives: Any
    training_chief_hooks: List[Any]
    training_hooks: List[Any]
    scaffold: Any
    mode: str


class ModelFnOps(_Fields):
    """The result of a model function."""

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Optional[Dict[str, Any]] = None,
        output_alternatives: Any = None,
        training_chief_hooks: Optional[Iterable[Any]] = None,
        training_hooks: Optional[Iterable[Any]] = None,
        scaffold: Any = None,
    ) -> ModelFnOps:
        """Check that a mode has what it needs.

        Raises:
            ValueError: `train_op`, `loss` or `predictions` is missing for the mode.
        """
        training, evaluating = mode == "train", mode == "eval"
        for name, value, needed in (
            ("train_op", train_op, training),
            ("loss", loss, training or evaluating),
            ("predictions", predictions, not training),
        ):
            if needed and value is None:
                raise ValueError("Missing %s." % name)
        return super().__new__(
            cls, predictions, None if loss is None else tf.reshape(loss, []), train_op,
            eval_metric_ops or {}, output_alternatives, list(training_chief_hooks or ()),
            list(training_hooks or ()), scaffold, mode,
        )  # fmt: skip

    def estimator_spec(
        self, default_serving_output_alternative_key: Optional[str] = None
    ) -> tf.estimator.EstimatorSpec:
        """The same for `tf.estimator`. Each alternative output is exported as it is."""
        outputs = {
            key: tf.estimator.export.PredictOutput(tensors)
            for key, (_, tensors) in (self.output_alternatives or {}).items()
        }
        default = default_serving_output_alternative_key or next(iter(outputs), None)
        if default is not None:
            outputs["serving_default"] = outputs[default]
        return tf.estimator.EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=self.eval_metric_ops,
            export_outputs=outputs or None,
            training_chief_hooks=self.training_chief_hooks,
            training_hooks=self.training_hooks,
            scaffold=self.scaffold,
        )


class Estimator:
    """An Estimator with `fit`, and with metrics that are given where it is evaluated.

    All else is left to one of `tf.estimator`, whose methods no class may override.

    Args:
        model_fn: a function of features, labels and, if it has arguments of these names, `mode`,
            `params`, `config` and `model_dir`; it returns a ModelFnOps, or predictions, loss and
            training op.
        model_dir: the folder of its checkpoints.
        config: a RunConfig.
        params: what the function gets as `params`.
        feature_engineering_fn: a function of features and labels that returns both.
    """

    def __init__(
        self,
        model_fn: Optional[Callable[..., Any]] = None,
        model_dir: Optional[str] = None,
        config: Any = None,
        params: Any = None,
        feature_engineering_fn: Optional[Callable[..., Any]] = None,
    ):
        if model_fn is None:
            raise ValueError("no model_fn was given")
        self._metrics: Dict[Any, Any] = {}
        self._engineered = feature_engineering_fn
        self._function = model_fn
        self._given = params
        self._core = tf.estimator.Estimator(self._adapted, model_dir, config)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._core, name)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Optional[Callable[..., Any]] = None,
        steps: Optional[int] = None,
        batch_size: Optional[int] = None,
        monitors: Optional[Iterable[Any]] = None,
        max_steps: Optional[int] = None,
    ) -> Estimator:
        """Train, on an input function or on arrays."""
        read = input_fn or _input_fn(x, y, batch_size, True)
        self._core.train(read, hooks=list(monitors or ()), steps=steps, max_steps=max_steps)
        return self

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Optional[Callable[..., Any]] = None,
        feed_fn: None = None,
        batch_size: Optional[int] = None,
        steps: Optional[int] = None,
        metrics: Optional[Dict[Any, Any]] = None,
        name: Optional[str] = None,
        checkpoint_path: Optional[str] = None,
        hooks: Optional[Iterable[Any]] = None,
        log_progress: bool = True,
    ) -> Any:
        """Loss, global step and metrics, by name; a key may be the name and a prediction's key."""
        self._metrics = dict(metrics or {})
        try:
            read = input_fn or _input_fn(x, y, batch_size, False)
            return self._core.evaluate(read, steps, list(hooks or ()), checkpoint_path, name)
        finally:
            self._metrics = {}

    def predict(
        self,
        x: Any = None,
        input_fn: Optional[Callable[..., Any]] = None,
        batch_size: Optional[int] = None,
        outputs: Optional[Iterable[str]] = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """The predictions of each row, one after the other, or as a list."""
        found = self._core.predict(
            input_fn or _input_fn(x, None, batch_size, False),
            predict_keys=None if outputs is None else list(outputs),
            yield_single_examples=not iterate_batches,
        )
        return found if as_iterable else list(found)

    def _adapted(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        if self._engineered is not None:
            features, labels = self._engineered(features, labels)
        values = dict(zip(_MODEL_ARGUMENTS, (mode, self._given, config, config.model_dir)))
        accepted = inspect.signature(self._function).parameters
        made = self._function(
            features, labels, **{name: values[name] for name in values if name in accepted}
        )
        made = made if isinstance(made, ModelFnOps) else ModelFnOps(mode, *made)
        if mode == "eval":
            more = _metric_ops(self._metrics, features, labels, made.predictions)
            made = made._replace(eval_metric_ops={**made.eval_metric_ops, **more})
        return made.estimator_spec()


def _metric_ops(metrics: Dict[Any, Any], features: Any, labels: Any, predictions: Any) -> Any:
    """The ops of metrics: MetricSpecs, or functions of predictions and labels."""
    made = {}
    for key, metric in metrics.items():
        name, prediction = key if isinstance(key, tuple) else (key, None)
        if hasattr(metric, "create_metric_ops"):
            made[name] = metric.create_metric_ops(features, labels, predictions)
        else:
            made[name] = metric(predictions[prediction] if prediction else predictions, labels)
    return made


def _input_fn(x: Any, y: Any, batch_size: Optional[int], train: bool) -> Callable[..., Any]:
    """Batches of arrays: shuffled and without end to train on."""
    if x is None:
        raise ValueError("neither x nor input_fn was given")
    size = batch_size or (
        128 if train else len(next(iter(x.values())) if hasattr(x, "values") else x)
    )
    return tf.estimator.inputs.numpy_input_fn(
        x, y, batch_size=size, num_epochs=None if train else 1, shuffle=train
    )
