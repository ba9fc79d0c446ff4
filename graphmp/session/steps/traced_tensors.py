"""Runs of nodes, dtypes and shapes of their outputs, inserted casts, from TensorFlow's traces."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.naming import SIBLING
from graphmp.policy.dtypes import FLOAT32 as FLOAT32_TYPE
from graphmp.policy.dtypes import HALF as HALF_TYPES
from graphmp.session.steps.step_stats import name_in_graph, runs_by_node
from graphmp.tuning.assemble import RanCast
from graphmp.tuning.costs import FLOAT32, HALF

_NANOSECONDS = 1e9  # of a second
_MADE = {FLOAT32_TYPE: FLOAT32, **dict.fromkeys(HALF_TYPES, HALF)}
_FED = re.compile(r"_arg_(.+)_(\d+)_\d+$")  # the node that stands for a fed tensor


def outputs_in(run_metadata: tf.RunMetadata) -> Iterator[Tuple[str, int, int, Any]]:
    """Node, output, dtype and TensorShapeProto of each tensor in a RunMetadata."""
    for device in run_metadata.step_stats.dev_stats:
        for stats in device.node_stats:
            for output in stats.output:
                if output.tensor_description.HasField("shape"):
                    tensor = output.tensor_description
                    yield stats.node_name, output.slot, tensor.dtype, tensor.shape


def tensors_in(trace: tf.RunMetadata) -> Dict[str, List[Any]]:
    """Runs of each node in a step; slot, dtype and shape of its outputs."""
    outputs: Dict[str, List[Any]] = {}
    for name, slot, dtype, shape in outputs_in(trace):
        fed = _FED.match(name)
        name, slot = (fed.group(1), int(fed.group(2))) if fed else (name, slot)
        outputs.setdefault(name, []).append([slot, dtype, [dim.size for dim in shape.dim]])
    ran = {name: [runs.runs, outputs.pop(name, [])] for name, runs in runs_by_node(trace).items()}
    return {**ran, **{name: [1, rows] for name, rows in outputs.items()}}


def casts_in(trace: tf.RunMetadata) -> List[RanCast]:
    """The inserted casts that ran."""
    sizes = {
        name_in_graph(name): (
            _MADE[dtype],
            int(np.prod([dim.size for dim in shape.dim], dtype=np.int64)),
        )
        for name, _, dtype, shape in outputs_in(trace)
        if SIBLING.match(name) and dtype in _MADE
    }
    return [
        RanCast(name, *sizes[name], _NANOSECONDS * runs.seconds / runs.runs)
        for name, runs in runs_by_node(trace).items()
        if runs.op == "Cast" and name in sizes
    ]
