"""The cost model of cast placement: bytes that a float32 tensor moves more than a half one in a step, and bytes that a cast moves.

1. Each tensor is written once and read once by each reader: 2 bytes an element more in float32, each time.
2. What an op hands on without touching it (`moves_nothing` in `policy/traits.txt`) is neither written nor read by it.
3. What stays inside a fused kernel moves nothing either: `Conv2D -> BiasAdd -> Relu` writes the Relu's result alone, where
   nothing else reads what is between (`fused.txt` has the pairs).
4. A cast reads each element in one dtype and writes it in the other, 6 bytes; it serves all readers of that dtype. A constant
   costs nothing: there is one of each dtype.
5. All of it happens as often as the loop around goes round (`graph/trip_counts.py`); a cast of a loop invariant stands before the loop.

Elements come from static shapes, unknown dimensions as 32.
"""

from __future__ import annotations

import pathlib
from typing import AbstractSet, NamedTuple

from graphmp.graph import tables
from graphmp.graph.frames import is_invariant
from graphmp.graph.shapes import recorded_elements
from graphmp.graph.view import Port
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.rewrite.units import TypedGraph

CAST_BYTES = 6  # an element read in one dtype and written in the other
SAVED_BYTES = 2  # an element in half instead of float32
LAUNCH = 16  # bytes that stand for starting one more kernel: of two ways that move the same, the one with fewer casts


class Costs(NamedTuple):
    """What one tensor costs in a step, in bytes.

    Attributes:
        written: more to write it in float32.
        read: more for each reader in float32 that touches it.
        cast: for a cast of it, either way; 0 for a constant.
    """

    written: int
    read: int
    cast: float


def costs(graph: TypedGraph, port: Port) -> Costs:
    """The costs of a tensor."""
    node = graph.view.nodes[port.node]
    elements = recorded_elements(node, port.output)
    trips = graph.trips(port.node)
    moved = 0 if stays_in_kernel(graph, port) else SAVED_BYTES * elements * trips
    casts = graph.trips(graph.view.inputs(port.node)[0].node) if is_invariant(node) else trips
    cast = 0 if node.op == "Const" else CAST_BYTES * elements * casts + LAUNCH
    return Costs(0 if node.op in MOVES_NOTHING else moved, moved, cast)


def price(graph: TypedGraph, half: AbstractSet[int]) -> float:
    """What a choice of dtypes costs in a step: bytes above those of the same graph with every unit in half and no cast.

    Args:
        graph: a graph body.
        half: the units in half; all others are float32.
    """
    total = 0.0
    for port, producer, consumers in graph.float32_tensors():
        cost = costs(graph, port)
        readers = [graph.reader(consumer) in half for consumer in consumers]
        touched = [graph.view.nodes[consumer.node].op not in MOVES_NOTHING for consumer in consumers]
        total += cost.written * (producer not in half) + cost.read * sum(t and not r for t, r in zip(touched, readers))
        total += cost.cast * any(reader != (producer in half) for reader in readers)
    return total


def stays_in_kernel(graph: TypedGraph, port: Port) -> bool:
    """Whether TensorFlow fuses what writes a tensor with the one op that reads it."""
    absorbing = _FUSED.get(graph.view.nodes[port.node].op)
    if absorbing is None or port.output:
        return False
    consumers = graph.view.consumers(port.node)
    readers = {consumer.node for consumer in consumers if consumer.output == 0}
    return len(readers) == 1 == len(consumers) and graph.view.nodes[consumers[0].node].op in absorbing and consumers[0].slot == 0


_FUSED = tables.sets(pathlib.Path(__file__).with_name("fused.txt"))
