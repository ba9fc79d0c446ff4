"""`tf.contrib.learn.RunConfig` and `learn_runner`."""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.learning.experiment import Experiment

__all__ = ["RunConfig", "run"]

_DEFAULT = 0  # save every ten minutes, unless steps are given
_TASKS = {"master": "train_and_evaluate", "ps": "run_std_server", "worker": "train"}


class RunConfig(tf.estimator.RunConfig):
    """`tf.estimator.RunConfig` with contrib's arguments.

    What concerns the machine becomes `tf_config`, of which `session_config` is independent. The
    cluster is read from TF_CONFIG, as ever.
    """

    def __init__(
        self,
        master: Optional[str] = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: Optional[int] = None,
        save_summary_steps: int = 100,
        save_checkpoints_secs: Optional[int] = _DEFAULT,
        save_checkpoints_steps: Optional[int] = None,
        keep_checkpoint_max: int = 5,
        keep_checkpoint_every_n_hours: int = 10000,
        log_step_count_steps: int = 100,
        protocol: Optional[str] = None,
        evaluation_master: str = "",
        model_dir: Optional[str] = None,
        session_config: Any = None,
        session_creation_timeout_secs: int = 7200,
    ):
        if save_checkpoints_secs == _DEFAULT:
            save_checkpoints_secs = 600 if save_checkpoints_steps is None else None
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs,
        )
        self._tf_config = tf.ConfigProto(
            log_device_placement=log_device_placement,
            inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores,
            gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
        )
        if master is not None:
            self._master = master
        self._evaluation_master = evaluation_master or self.evaluation_master

    @property
    def tf_config(self) -> tf.ConfigProto:
        """The settings of the machine."""
        return self._tf_config

    @property
    def environment(self) -> str:
        """Where it runs: `local` but for a cluster."""
        return "cloud" if self.cluster_spec else "local"


def run(
    experiment_fn: Callable[..., Any],
    output_dir: Optional[str] = None,
    schedule: Optional[str] = None,
    run_config: Any = None,
    hparams: Any = None,
) -> Any:
    """Make an Experiment and run its method `schedule`, by default that of the task's type.

    Raises:
        TypeError: no Experiment was made, or it has no method of this name.
        ValueError: not exactly one of `output_dir` and `run_config` was given, or hyperparameters
            with the former, or the latter has no folder.
    """
    if (output_dir is None) == (run_config is None):
        raise ValueError("give one of `output_dir` and `run_config`")
    if run_config is None:
        if hparams is not None:
            raise ValueError("`hparams` needs `run_config` in place of `output_dir`")
        experiment = experiment_fn(output_dir)
    elif not run_config.model_dir:
        raise ValueError("`run_config` has no `model_dir`")
    else:
        experiment = experiment_fn(run_config, hparams)
    if not isinstance(experiment, Experiment):
        raise TypeError("found %r in place of an Experiment" % (experiment,))
    config = run_config or experiment.estimator.config
    name = schedule or _default_schedule(config)
    if not callable(getattr(experiment, name, None)):
        raise TypeError("schedule=%r: an Experiment has no such method" % name)
    return getattr(experiment, name)()


def _default_schedule(config: Any) -> str:
    alone = not config.cluster_spec or not config.cluster_spec.jobs
    return "train_and_evaluate" if alone else _TASKS.get(config.task_type, "train_and_evaluate")
