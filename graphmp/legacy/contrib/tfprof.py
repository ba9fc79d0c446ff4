"""The profiler's commands of `tf.contrib.tfprof`, now `tf.profiler`."""

from __future__ import annotations

from typing import Any, Dict, Optional

import tensorflow.compat.v1 as tf

__all__ = [
    "ALL_ADVICE",
    "FLOAT_OPS_OPTIONS",
    "PRINT_ALL_TIMING_MEMORY",
    "TRAINABLE_VARS_PARAMS_STAT_OPTIONS",
    "advise",
    "print_model_analysis",
]

Options = Dict[str, Any]
_BUILDER = tf.profiler.ProfileOptionBuilder

ALL_ADVICE: Options = {
    "ExpensiveOperationChecker": {},
    "AcceleratorUtilizationChecker": {},
    "JobChecker": {},
    "OperationChecker": {},
}
FLOAT_OPS_OPTIONS: Options = _BUILDER.float_operation()
PRINT_ALL_TIMING_MEMORY: Options = dict(_BUILDER.time_and_memory(), order_by="name")
TRAINABLE_VARS_PARAMS_STAT_OPTIONS: Options = _BUILDER.trainable_variables_parameter()


def print_model_analysis(
    graph: tf.Graph,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: Optional[Options] = None,
) -> Any:
    """Profile a graph by a command, `scope`, `graph`, `op` or `code`; returns the tree of nodes."""
    options = tfprof_options or TRAINABLE_VARS_PARAMS_STAT_OPTIONS
    return tf.profiler.profile(graph, run_meta, op_log, tfprof_cmd, options)


def advise(graph: tf.Graph, run_meta: Any = None, tfprof_options: Optional[Options] = None) -> Any:
    """Let the profiler's checkers look for what is slow; all of them without options."""
    return tf.profiler.advise(graph, run_meta, tfprof_options or ALL_ADVICE)
