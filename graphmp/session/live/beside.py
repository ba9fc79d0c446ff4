"""Counts of steps that a script runs beside its training op: no skipped step stops them."""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Sequence

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.state.live import ancestors, is_write, variable_op

_COUNTS_ALL = (
    "the script runs this count of steps beside the training op, so that it counts skipped steps"
    " too; give minimize or apply_gradients the global_step"
)


def counted_beside(
    graph: Any, trained: Collection[Any], ops: Sequence[Any], config: Config
) -> List[Dict[str, str]]:
    """Warnings about writes of the global step that a training run has outside of its training ops.

    Args:
        graph: the tf.Graph.
        trained: the ops of the run that train.
        ops: all ops that it asks for.
        config: the options.
    """
    counts = {variable_op(each) for each in graph.get_collection(tf.GraphKeys.GLOBAL_STEP)} - {None}
    if config.loss_scale != "dynamic" or config.count_skipped_steps or not counts:
        return []
    others = ancestors(op for op in ops if op not in trained) - ancestors(trained)
    return [
        warning("GMP112", op.name, _COUNTS_ALL)
        for op in sorted(others, key=lambda op: str(op.name))
        if is_write(op) and variable_op(op.inputs[0].op.outputs[0]) in counts
    ]
