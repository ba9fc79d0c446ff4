"""The kernels in a profile for each node of a graph, and the shapes of its tensors.

A profile is the RunMetadata of a step that ran with `tf.RunOptions(trace_level=FULL_TRACE)`. It has
a device `/device:GPU:0/stream:all`, whose entries are kernels:

    node_name        dense/MatMul:MatMul, the node and its op
    timeline_label   volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn regs:.. shm:.. grid:.. block:..
                     @@dense/MatMul:MatMul    1.15
                     volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn regs:.. static_shared:..
                     dynamic_shared:.. grid:..      2.x

`timeline.Timeline` drops the kernels' names. TensorFlow before 1.15 writes no labels for them.
"""

from __future__ import annotations

import collections
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.session.steps.traced_tensors import outputs_in

_STREAMS = re.compile(r"^/device:GPU:\d+/stream:all$")
_LABEL = re.compile(r"^(.+?)\s*(?:\sregs:|@@|$)", re.DOTALL)


class Kernel(NamedTuple):
    """A kernel that ran.

    Attributes:
        name: its name, with any parameters.
        op: the op that launched it; empty if unknown.
        microseconds: its time.
    """

    name: str
    op: str
    microseconds: float


def kernels_of_run(run_metadata: tf.RunMetadata) -> Dict[str, List[Kernel]]:
    """The kernels of each node, by the streams of a RunMetadata.

    Copies of memory and kernels without a label are left out.
    """
    found: Dict[str, List[Kernel]] = collections.defaultdict(list)
    for device in run_metadata.step_stats.dev_stats:
        for stats in device.node_stats if _STREAMS.match(device.device) else ():
            node, _, op = stats.node_name.partition(":")
            label = _LABEL.match(stats.timeline_label)
            if label:
                found[node].append(
                    Kernel(
                        label.group(1),
                        op,
                        float(stats.op_end_rel_micros - stats.op_start_rel_micros),
                    )
                )
    return dict(found)


def shapes_in(run_metadata: tf.RunMetadata) -> Iterator[Tuple[str, int, Any]]:
    """Node, output and TensorShapeProto of each tensor in a RunMetadata."""
    for name, slot, _, shape in outputs_in(run_metadata):
        yield name, slot, shape
