"""Costs: the measured times of a training step's operations in float32 and in half precision."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf
from scipy.special import bdtrik

from graphmp.naming import of_function

FLOAT32, HALF = "float32", "half"  # the two types in which a step was measured
BYTES, TUNED = "bytes", "tuned"  # and two ways to place casts
REGIONS = "regions"  # one of these ways with some regions in float32, as timed steps decided
OPERATIONS = "%s_operations"  # the sum of a step's operations, which ran one at a time
WHOLE = "%s_whole"  # the step beside it, without a tracer, its operations side by side
_TAIL = 0.025  # of a 95% interval
_LEAST = 3  # samples


class TensorType(NamedTuple):
    """The type of a tensor.

    Attributes:
        dtype: its name, such as "float32".
        shape: None if the rank is unknown; a dimension is None if it is unknown.
    """

    dtype: str
    shape: Optional[Tuple[Optional[int], ...]] = None


class OperationSignature(NamedTuple):
    """An operation as far as its time depends on it; dtypes are those of the float32 graph.

    Attributes:
        op: its type.
        attributes: name and value of the attributes that matter, sorted.
        inputs: the types of its inputs.
        outputs: the types of its outputs.
    """

    op: str
    attributes: Tuple[Tuple[str, str], ...] = ()
    inputs: Tuple[TensorType, ...] = ()
    outputs: Tuple[TensorType, ...] = ()


class Time(NamedTuple):
    """A measured time in nanoseconds.

    Attributes:
        nanoseconds: the median; of an operation that of the quickest quarter of its samples.
        low: lower end of the 95% interval of the median.
        high: its upper end; infinite if the measurement was given up after `nanoseconds`.
        samples: how many there were.
    """

    nanoseconds: float
    low: float
    high: float
    samples: int


class OperationTime(NamedTuple):
    """The time of one run of an operation in each type; None where it wasn't measured."""

    signature: OperationSignature
    float32: Optional[Time]
    half: Optional[Time]


class CastTime(NamedTuple):
    """The time of a cast: the dtype that it makes ("float32", or "half"), and its elements."""

    to: str
    elements: int
    time: Time


class NodeCost(NamedTuple):
    """The cost of a node of the measured graph.

    Attributes:
        measurement: index of its measurement; -1 if it runs no kernel of its own.
        runs: how often it runs in a step.
        within: the node whose kernel it is fused into; empty if there is none.
    """

    measurement: int
    runs: float = 1.0
    within: str = ""


class Machine(NamedTuple):
    """Where costs were measured.

    Attributes:
        device: the processor or GPU, in words.
        tensorflow: its version.
        threads: the cores that TensorFlow may use.
    """

    device: str
    tensorflow: str
    threads: int


@dataclass(frozen=True)
class Costs:
    """The measured costs of a training step.

    Attributes:
        machine: where they were measured.
        compute_dtype: the half precision: "float16" or "bfloat16".
        measurements: of each distinct operation.
        casts: by dtype and size.
        nodes: of the measured graph, by name; of its functions, by path.
        overhead: nanoseconds to start one more operation.
        steps: times of the whole step, by name: FLOAT32, HALF, BYTES, TUNED; OPERATIONS of the
            first two; WHOLE of these, in turns with the traces.
        source: the measured graph, as the user named it.
        batch_size: the first dimension of its batches; None if nothing was fed.
        complete: False if the measurement was interrupted.
        faster: the name of the step that was the fastest in turns, FLOAT32, BYTES or TUNED; empty
            if that wasn't measured.
        placement: digests of the placement that `faster` is about, of the graph and of each
            function, with commas between them; empty for any.
        float32_nodes: nodes that the step was faster with in float32, though that placement has
            them in half precision.
        half_scale: what times in half precision are multiplied by: how much longer they take in
            whole steps, where float32's do so by 1.
    """

    machine: Machine
    compute_dtype: str
    measurements: Tuple[OperationTime, ...] = ()
    casts: Tuple[CastTime, ...] = ()
    nodes: Mapping[str, NodeCost] = field(default_factory=dict)
    overhead: float = 0.0
    steps: Mapping[str, Time] = field(default_factory=dict)
    source: str = ""
    batch_size: Optional[int] = None
    complete: bool = True
    faster: str = ""
    placement: str = ""
    float32_nodes: Tuple[str, ...] = ()
    half_scale: float = 1.0

    def are_of(self, graph_def: tf.GraphDef) -> bool:
        """Whether they were measured on a graph: it has at least half of the nodes, by name."""
        measured = {path for path in self.nodes if not path.startswith(of_function(""))}
        return 0 < len(measured) <= 2 * len(measured & {node.name for node in graph_def.node})


def median_time(nanoseconds: Sequence[float]) -> Time:
    """The median of some samples, with its interval by order statistics.

    Up to five samples say no more than their range.
    """
    ordered = sorted(nanoseconds)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    below = math.floor(float(bdtrik(_TAIL, count, 0.5))) if count > 5 else 0
    return Time(middle, ordered[below], ordered[count - 1 - below], count)


def quickest(nanoseconds: Sequence[float]) -> Sequence[float]:
    """The quickest quarter of some samples, at least three: other work only ever adds time."""
    return sorted(nanoseconds)[: max(_LEAST, (len(nanoseconds) + 3) // 4)]
