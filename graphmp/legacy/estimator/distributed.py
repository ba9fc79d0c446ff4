"""TensorFlow 2.15's `distribute/estimator_training`: distribution strategies in a RunConfig.

Strategies of one machine, such as MirroredStrategy, are served. Its coordinator of several machines
is not; parameter servers by `TF_CONFIG` without a strategy don't need it.
"""

from __future__ import annotations

from typing import Any, Dict

from graphmp.legacy.estimator import gone

_KINDS = ("train_distribute", "eval_distribute")


def init_run_config(config: Any, tf_config: Dict[str, Any]) -> None:
    """Complete a RunConfig that has a distribution strategy.

    Args:
        config: a `tf.estimator.RunConfig`.
        tf_config: the contents of the environment variable TF_CONFIG.

    Raises:
        ValueError: if a strategy is given twice.
        GraphmpError: GMP026 for strategies of several machines.
    """
    asked = config._experimental_distribute
    for kind in _KINDS:
        wanted = getattr(asked, kind, None)
        if wanted is None:
            continue
        if getattr(config, "_" + kind):
            raise ValueError("%s is given, and experimental_distribute.%s too" % (kind, kind))
        setattr(config, "_" + kind, wanted)
    if tf_config.get("cluster") or getattr(asked, "remote_cluster", None):
        raise gone.unserved("a distribution strategy of several machines")
    config._init_distributed_setting_from_environment_var({})
    config._distribute_coordinator_mode = None


def should_run_distribute_coordinator(config: Any) -> bool:
    """Whether several machines are coordinated: never."""
    return False
