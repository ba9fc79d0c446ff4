"""`tf.contrib.learn.Experiment`: an Estimator with its input functions and schedules."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.learning.estimator import Estimator
from graphmp.legacy.contrib.learning.exports import ExportStrategy

__all__ = ["Experiment"]

_EVERY_WORKER, _LONGEST = 5, 60  # seconds that a worker waits before it trains


class Experiment:
    """Trains, evaluates and exports an Estimator; each schedule is a method.

    Args:
        estimator: of `tf.estimator` or `tf.contrib.learn`.
        train_input_fn: what it trains on.
        eval_input_fn: what it is evaluated on.
        eval_metrics: MetricSpecs by name, for an Estimator of contrib only.
        train_steps: the global step at which training ends.
        eval_steps: batches of an evaluation; None for all.
        train_monitors: hooks.
        eval_hooks: hooks.
        local_eval_frequency: not used, as in contrib since 2016.
        eval_delay_secs: seconds before `evaluate`.
        continuous_eval_throttle_secs: seconds between evaluations at least.
        min_eval_frequency: 0 for no evaluation before training has ended.
        delay_workers_by_global_step: not used: workers wait some seconds each.
        export_strategies: one ExportStrategy or several.
        train_steps_per_iteration: steps of one turn of `continuous_train_and_eval`.
        checkpoint_and_export: not used: exports follow each evaluation.
        saving_listeners: listeners of checkpoints.
        check_interval_secs: not used.
    """

    def __init__(
        self,
        estimator: Any,
        train_input_fn: Callable[..., Any],
        eval_input_fn: Callable[..., Any],
        eval_metrics: Optional[Dict[Any, Any]] = None,
        train_steps: Optional[int] = None,
        eval_steps: Optional[int] = 100,
        train_monitors: Optional[Iterable[Any]] = None,
        eval_hooks: Optional[Iterable[Any]] = None,
        local_eval_frequency: Optional[int] = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: Optional[int] = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Any = None,
        train_steps_per_iteration: Optional[int] = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Optional[Iterable[Any]] = None,
        check_interval_secs: float = 5,
    ):
        if eval_metrics is not None and not isinstance(estimator, Estimator):
            raise ValueError(
                "`eval_metrics` needs an Estimator of tf.contrib.learn; one of tf.estimator has"
                " `eval_metric_ops` in its EstimatorSpec"
            )
        self.estimator = estimator
        self.eval_metrics = eval_metrics
        self.train_steps = train_steps
        self.eval_steps = eval_steps
        self._inputs = train_input_fn, eval_input_fn
        self._train_hooks = list(train_monitors or ())
        self._eval_hooks = list(eval_hooks or ())
        self._delay = eval_delay_secs
        self._throttle = continuous_eval_throttle_secs
        self._evaluates_early = min_eval_frequency != 0
        self._steps_per_iteration = train_steps_per_iteration
        self._listeners = list(saving_listeners or ())
        self._strategies: List[ExportStrategy] = []
        self.reset_export_strategies(export_strategies)

    def extend_train_hooks(self, additional_hooks: Iterable[Any]) -> None:
        """Add hooks to training."""
        self._train_hooks.extend(additional_hooks)

    def reset_export_strategies(self, new_export_strategies: Any = None) -> Tuple[Any, ...]:
        """Replace the strategies; the former ones are returned."""
        former = tuple(self._strategies)
        one = isinstance(new_export_strategies, ExportStrategy)
        self._strategies = [new_export_strategies] if one else list(new_export_strategies or ())
        return former

    def train(self, delay_secs: Optional[float] = None) -> Any:
        """Train up to `train_steps`; later workers of a cluster begin later."""
        if delay_secs is None:
            task = self.estimator.config.task_id or 0
            delay_secs = min(_LONGEST, task * _EVERY_WORKER)
        time.sleep(delay_secs)
        return self._train()

    def evaluate(self, delay_secs: Optional[float] = None, name: Optional[str] = None) -> Any:
        """Evaluate once, after a delay."""
        time.sleep(self._delay if delay_secs is None else delay_secs)
        return self._evaluate(name or "one_pass")

    def train_and_evaluate(self) -> Tuple[Any, List[Any]]:
        """Train, with an evaluation for each checkpoint; the last result and the exports."""
        listeners = [_Evaluation(self._evaluate_early)] if self._evaluates_early else []
        self._train(listeners)
        return self._evaluate_and_export(None)

    local_run = train_and_evaluate

    def continuous_train_and_eval(
        self, continuous_eval_predicate_fn: Optional[Callable[..., bool]] = None
    ) -> Tuple[Any, List[Any]]:
        """Train and evaluate by turns until `train_steps`, or until the predicate is false."""
        step, path = self._global_step(), None
        found: Tuple[Any, List[Any]] = (None, [])
        while _goes_on(continuous_eval_predicate_fn, found[0], path) and not self._ended(step):
            by = self._steps_per_iteration or max(1, (self.train_steps or 10000) // 10)
            end = step + by if self.train_steps is None else min(step + by, self.train_steps)
            self._train((), end)
            step, path = self._global_step(), self.estimator.latest_checkpoint()
            found = self._evaluate_and_export(None)
        return found

    def continuous_eval(
        self,
        delay_secs: Optional[float] = None,
        throttle_delay_secs: Optional[float] = None,
        evaluate_checkpoint_only_once: bool = True,
        continuous_eval_predicate_fn: Optional[Callable[..., bool]] = None,
        name: str = "continuous",
    ) -> None:
        """Evaluate each checkpoint that another process writes, until one of the last step."""
        time.sleep(self._delay if delay_secs is None else delay_secs)
        throttle = self._throttle if throttle_delay_secs is None else throttle_delay_secs
        found, path = None, None
        for path in tf.train.checkpoints_iterator(self.estimator.model_dir, throttle):
            if not _goes_on(continuous_eval_predicate_fn, found, path):
                return
            found, _ = self._evaluate_and_export(name, path)
            if self._ended(found["global_step"]):
                return

    def test(self) -> Any:
        """Train for a step, evaluate one batch, and export."""
        self.estimator.train(self._inputs[0], hooks=self._train_hooks, steps=1)
        steps, self.eval_steps = self.eval_steps, 1
        try:
            return self._evaluate_and_export("one_pass")[0]
        finally:
            self.eval_steps = steps

    def run_std_server(self) -> None:
        """Serve, as a parameter server does, without end."""
        config = self.estimator.config
        tf.train.Server(
            config.cluster_spec, config.task_type, config.task_id, config=config.session_config
        ).join()

    def _train(self, listeners: Iterable[Any] = (), steps: Optional[int] = None) -> Any:
        return self.estimator.train(
            self._inputs[0],
            hooks=self._train_hooks,
            max_steps=self.train_steps if steps is None else steps,
            saving_listeners=[*self._listeners, *listeners],
        )

    def _evaluate(self, name: Optional[str], path: Optional[str] = None) -> Any:
        more = {} if self.eval_metrics is None else {"metrics": self.eval_metrics}
        return self.estimator.evaluate(
            input_fn=self._inputs[1], steps=self.eval_steps, hooks=self._eval_hooks,
            checkpoint_path=path, name=name, **more,
        )  # fmt: skip

    def _evaluate_early(self, step: int) -> None:
        if not self._ended(step):  # an evaluation follows the last step anyway
            self._evaluate(None)

    def _evaluate_and_export(
        self, name: Optional[str], path: Optional[str] = None
    ) -> Tuple[Any, List[Any]]:
        result = self._evaluate(name, path)
        folder = os.path.join(self.estimator.model_dir, "export")
        exports = [
            each.export(self.estimator, os.path.join(folder, each.name), path, result)
            for each in self._strategies
        ]
        return result, exports

    def _ended(self, step: int) -> bool:
        return self.train_steps is not None and step >= self.train_steps

    def _global_step(self) -> int:
        path = self.estimator.latest_checkpoint()
        return int(self.estimator.get_variable_value("global_step")) if path else 0


class _Evaluation(tf.train.CheckpointSaverListener):
    """Calls a function for each checkpoint, with its step."""

    def __init__(self, evaluate: Callable[[int], None]):
        self._evaluate = evaluate

    def after_save(self, session: tf.Session, global_step_value: int) -> None:
        self._evaluate(global_step_value)


def _goes_on(predicate: Optional[Callable[..., bool]], result: Any, path: Optional[str]) -> bool:
    """The answer of a predicate; one of a single argument gets the result only."""
    if predicate is None:
        return True
    try:
        return predicate(result, checkpoint_path=path)
    except TypeError:
        return predicate(result)
