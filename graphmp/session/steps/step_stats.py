"""Peak memory, and seconds by op and by node, from TensorFlow's trace of one step (FULL_TRACE).

Only devices by their full name count (`.../device:CPU:0`). TensorFlow adds results of a profiler,
`/host:CPU` and `/device:GPU:0/stream:all`: the same ops a second time. A GPU's streams give the
time of its kernels, the device itself the time to launch them: if there are streams, their seconds
count.
"""

from __future__ import annotations

import collections
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

_DEVICE = re.compile(r"/device:(\w+:\d+)$")
_STREAMS = re.compile(r"/device:(\w+:\d+)/stream:all$")
_OP_OF_LABEL = re.compile(r" = (\w+)\(")  # "[cpu 0.5MB 0.5MB] mm = MatMul(x, w)"
_OP_OF_NAME = re.compile(r":(\w+)$")  # "mm:MatMul", of streams
# In the names of nodes that TensorFlow's optimizer moved across a cast, and of the cast.
_MOVED = re.compile("ArithmeticOptimizer/|ReorderCastLikeAndValuePreserving_[a-z0-9]+_")
Record = Tuple[int, int]  # microsecond, bytes; negative for a release
_MICROSECOND, _NANOSECOND = 1e-6, 1e-9


def peak_bytes(run_metadata: tf.RunMetadata, scratch: bool = True) -> Dict[str, int]:
    """The most bytes that a step had allocated at one time, by allocator ("cpu", "GPU_0_bfc").

    Memory from before the step (variables, feeds) doesn't count. Within one microsecond,
    allocations come before releases.

    Args:
        run_metadata: the trace.
        scratch: whether memory counts that a kernel releases before it ends, which holds no tensor.
    """
    records: Dict[str, List[Record]] = collections.defaultdict(list)
    for _, node in _nodes(run_metadata):
        for memory in node.memory:
            records[memory.allocator_name] += _records(memory) if scratch else _outlasting(memory)
    return {allocator: _highest(found) for allocator, found in sorted(records.items())}


def seconds_by_op(run_metadata: tf.RunMetadata) -> Dict[str, float]:
    """Seconds of kernels by op, summed over nodes and devices, in descending order.

    They add up to more than the step if kernels run in parallel. The op is the executed one:
    TensorFlow's optimizers turn a Conv2D into `_FusedConv2D`. An op missing in the trace is called
    by the node's name.
    """
    streams = {match.group(1): stats for stats, match in _matching(run_metadata, _STREAMS)}
    seconds: Dict[str, float] = collections.defaultdict(float)
    for device, node in _nodes(run_metadata):
        if device not in streams:
            seconds[_op(node)] += _seconds(node)
    for stats in streams.values():
        for node in stats.node_stats:
            seconds[_op(node)] += _seconds(node)
    return dict(sorted(seconds.items(), key=lambda item: (-item[1], item[0])))


class NodeRuns(NamedTuple):
    """The kernels of a node in one step: seconds of all runs, their number, and the executed op."""

    seconds: float
    runs: int
    op: str


def runs_by_node(run_metadata: tf.RunMetadata) -> Dict[str, NodeRuns]:
    """The kernels of each node in a step; a GPU's by its streams."""
    streams = {match.group(1): stats for stats, match in _matching(run_metadata, _STREAMS)}
    found: Dict[str, NodeRuns] = {}
    for device, node in _nodes(run_metadata):
        name = name_in_graph(node.node_name)
        before = found.get(name, NodeRuns(0.0, 0, ""))
        seconds = 0.0 if device in streams else _seconds(node)
        found[name] = NodeRuns(before.seconds + seconds, before.runs + 1, _op(node))
    for stats in streams.values():
        for kernel in stats.node_stats:
            name = name_in_graph(kernel.node_name.split(":")[0])
            if name in found:
                found[name] = found[name]._replace(seconds=found[name].seconds + _seconds(kernel))
    return found


def name_in_graph(traced: str) -> str:
    """The name of a node, also if TensorFlow moved it across a cast and renamed it."""
    return _MOVED.sub("", traced)


def seconds_between(run_metadata: tf.RunMetadata) -> float:
    """Seconds of a step in which no kernel runs, if they run one at a time on one device.

    TensorFlow prepares inputs, passes outputs on, and finds the next node. 0 for several devices,
    a GPU among them: there kernels run side by side.
    """
    devices = [stats for stats, _ in _matching(run_metadata, _DEVICE) if stats.node_stats]
    if len(devices) != 1:
        return 0.0
    ends = []
    for node in devices[0].node_stats:
        start = node.all_start_nanos or 1000 * node.all_start_micros
        ends.append((start, start + (node.all_end_rel_nanos or 1000 * node.all_end_rel_micros)))
    span = max(end for _, end in ends) - min(start for start, _ in ends)
    return max(0.0, _NANOSECOND * span - sum(map(_seconds, devices[0].node_stats)))


def _nodes(run_metadata: tf.RunMetadata) -> Iterator[Tuple[str, Any]]:
    """Each device ("CPU:0") with its nodes' NodeExecStats."""
    for stats, match in _matching(run_metadata, _DEVICE):
        for node in stats.node_stats:
            yield match.group(1), node


def _matching(run_metadata: tf.RunMetadata, pattern: Any) -> Iterator[Tuple[Any, Any]]:
    for stats in run_metadata.step_stats.dev_stats:
        match = pattern.search(stats.device)
        if match:
            yield stats, match


def _records(memory: Any) -> List[Record]:
    return [(record.alloc_micros, record.alloc_bytes) for record in memory.allocation_records]


def _outlasting(memory: Any) -> List[Record]:
    """The records of an AllocatorMemoryUsed, without pairs that cancel out in its kernel."""
    records = _records(memory)
    scratch = memory.total_bytes - memory.live_bytes  # live when the kernel ends
    for release in [record for record in records if record[1] < 0]:
        if scratch + release[1] < 0:
            break
        scratch += release[1]
        records.remove(release)
        records.remove(next(record for record in records if record[1] == -release[1]))
    return records


def _highest(records: List[Record]) -> int:
    """The highest running sum of bytes."""
    total = highest = 0
    for _, size in sorted(records, key=lambda record: (record[0], -record[1])):
        total += size
        highest = max(highest, total)
    return highest


def _op(node: Any) -> str:
    match = _OP_OF_LABEL.search(node.timeline_label) or _OP_OF_NAME.search(node.node_name)
    return str(match.group(1) if match else node.node_name)


def _seconds(node: Any) -> float:
    """The time of a node's kernel; 1.15 has nanoseconds only for nodes of the executor."""
    nanoseconds = node.op_end_rel_nanos - node.op_start_rel_nanos
    if nanoseconds > 0:
        return float(nanoseconds) * _NANOSECOND
    return (
        float((node.op_end_rel_micros or node.all_end_rel_micros) - node.op_start_rel_micros)
        * _MICROSECOND
    )
