"""Bytes that one step sends from device to device, before and after a conversion.

A tensor is sent once to each device with consumers. Devices are those named in the graph; other
nodes are on the session's. Unknown dimensions count as 32 or as the given batch size, a node in a
while loop once for each iteration.
"""

from __future__ import annotations

import collections
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.view import Port
from graphmp.inspect.attempt import attempt
from graphmp.inspect.sizes import ShapeSource, Sizes
from graphmp.inspect.training_step import Training, step_nodes
from graphmp.policy.policy import Policy
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs


class Sent(NamedTuple):
    """A tensor sent from one device to another: its bytes in a step, and a consumer there."""

    tensor: str
    dtype: str
    bytes: int
    source: str
    target: str
    reader: str


class Pair(NamedTuple):
    """Bytes sent from one device to another in a step; `tensors`.

    Of the converted graph, else of the original.
    """

    source: str
    target: str
    tensors: int
    before: int
    after: int


class Wire(NamedTuple):
    """The traffic of a step.

    Attributes:
        unknown: the assumed size of an unknown dimension.
        trains: whether there is a training step; else all final results count.
        pairs: by device, in descending order of bytes.
        before: all tensors that the original sends, the largest first.
        after: those of the converted graph; None without one.
        error: why a graph that needs conversion has none.
        notes: special cases of the graph: rows `code`, `node`, `message`.
    """

    unknown: int
    trains: bool
    pairs: List[Pair]
    before: List[Sent]
    after: Optional[List[Sent]]
    error: str
    notes: List[Dict[str, str]]


def inspect_wire(
    meta_graph: tf.MetaGraphDef,
    config: Config,
    policy: Policy,
    batch_size: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
) -> Wire:
    """Count the bytes that a graph and its conversion send.

    Arguments and errors are those of `attempt.attempt`.
    """
    found = attempt(sent, meta_graph, config, policy, batch_size, progress)
    pairs = _pairs(found.before, found.after)
    return Wire(
        found.unknown,
        found.training.trains,
        pairs,
        found.before,
        found.after,
        found.error,
        found.notes,
    )


def sent(meta_graph: tf.MetaGraphDef, training: Training, shapes: ShapeSource) -> List[Sent]:
    """All tensors that a step of a graph sends, the largest first."""
    graph = TypedGraph(meta_graph.graph_def, OpDefs(meta_graph))
    sizes = Sizes(graph, shapes)
    found = []
    for port, source, target, reader in _crossings(graph, step_nodes(graph.view, training)):
        dtype = sizes.dtype(port)
        sent_bytes = sizes.tensor_bytes(port) * graph.trips(port.node)
        found.append(
            Sent(
                "%s:%d" % port,
                tf.as_dtype(dtype).name if dtype else "",
                sent_bytes,
                source,
                target,
                reader,
            )
        )
    return sorted(found, key=lambda row: (-row.bytes, row.tensor, row.target))


def _crossings(graph: TypedGraph, nodes: Set[str]) -> Iterator[Tuple[Port, str, str, str]]:
    """Outputs with consumers on other devices: source, target, and consumers there.

    A constant without a device is where it is read.
    """
    for name in sorted(nodes):
        if graph.view.nodes[name].op == "Const" and not graph.places.of(name):
            continue
        readers = [consumer for consumer in graph.view.consumers(name) if consumer.node in nodes]
        for target, there in graph.places.elsewhere(name, readers).items():
            for output in sorted({consumer.output for consumer in there}):
                yield (
                    Port(name, output),
                    graph.places.of(name),
                    target,
                    next(c.node for c in there if c.output == output),
                )


def _pairs(before: List[Sent], after: Optional[List[Sent]]) -> List[Pair]:
    sums: Dict[Tuple[str, str], List[int]] = collections.defaultdict(lambda: [0, 0, 0])
    for row in before:
        sums[row.source, row.target][1] += row.bytes
    for row in after or ():
        sums[row.source, row.target][2] += row.bytes
    for row in before if after is None else after:
        sums[row.source, row.target][0] += 1
    return sorted(
        (Pair(*ends, *counts) for ends, counts in sums.items()),
        key=lambda pair: (-pair.before, -pair.after, pair.source, pair.target),
    )
