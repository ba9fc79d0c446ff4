"""The cost model of cast placement: bytes that a float32 tensor moves more than a half one in a step, and bytes that a cast moves.

1. Each tensor is written once and read once by each reader: 2 bytes an element more in float32, each time.
2. What an op hands on without touching it (`moves_nothing` in `policy/traits.txt`) is neither written nor read by it.
3. What stays inside a fused kernel moves nothing either: `Conv2D -> BiasAdd -> Relu` writes the Relu's result alone, where
   nothing else reads what is between (`fused.txt` has the pairs).
4. A cast reads each element in one dtype and writes it in the other, 6 bytes; it serves all readers of that dtype. A constant
   costs nothing: there is one of each dtype.
5. All of it happens as often as the loop around goes round (`graph/trip_counts.py`); a cast of a loop invariant stands before the loop.
6. A tensor is sent once to each device that reads it, in half where its writer or the readers there are in half: the cast is on the side where
   it saves that. A byte sent counts as a hundred moved in memory.
7. What an all-reduce of gradients gives is sent once more, where it is in float32.
8. What no step runs (`idle`: gradients of constants, mostly) moves nothing; a cast for it alone costs no more than its launch.

Elements come from static shapes, unknown dimensions as 32.
"""

from __future__ import annotations

from typing import AbstractSet, NamedTuple

from graphmp.graph.shapes.shapes import recorded_elements
from graphmp.graph.structure.frames import is_invariant
from graphmp.graph.structure.view import Port
from graphmp.policy import tables
from graphmp.policy.traits import MOVES_NOTHING, homogeneity
from graphmp.rewrite.units import TypedGraph

CAST_BYTES = 6  # an element read in one dtype and written in the other
SAVED_BYTES = 2  # an element in half instead of float32
SENT = 100  # bytes in memory for one on the wire: 10 Gbit Ethernet moves 1.25 GB/s
LAUNCH = 64  # bytes that stand for starting one more kernel: of two ways that move the same, the one with fewer casts


class Costs(NamedTuple):
    """The cost of one tensor in a step, in bytes.

    Attributes:
        written: more to write it in float32.
        read: more for each reader in float32 that touches it.
        cast: for a cast of it, either way; 0 for a constant.
        sent: more for each other device that it is sent to in float32.
    """

    written: int
    read: int
    cast: float
    sent: int


def costs(graph: TypedGraph, port: Port) -> Costs:
    """The costs of a tensor."""
    node = graph.view.nodes[port.node]
    elements = recorded_elements(node, port.output)
    trips = graph.trips(port.node)
    idle = port.node in graph.idle
    moved = 0 if idle or stays_in_kernel(graph, port) else SAVED_BYTES * elements * trips
    casts = graph.trips(graph.view.inputs(port.node)[0].node) if is_invariant(node) else trips
    cast = 0 if node.op == "Const" else LAUNCH + (0 if idle else CAST_BYTES * elements * casts)
    sent = 0 if idle or node.op == "Const" else SENT * SAVED_BYTES * elements * trips
    return Costs(0 if node.op in MOVES_NOTHING else moved, moved, cast, sent)


def price(graph: TypedGraph, half: AbstractSet[int]) -> float:
    """The cost of a choice of dtypes in a step.

    Bytes above those of the graph with every unit half and no cast.

    Args:
        graph: a graph body.
        half: the units in half; all others are float32.
    """
    total = 0.0
    for port, producer, consumers in graph.float32_tensors():
        cost = costs(graph, port)
        wide = [consumer.node for consumer in consumers if graph.reader(consumer) not in half]
        other = (
            wide
            if producer in half
            else [consumer.node for consumer in consumers if graph.reader(consumer) in half]
        )
        total += (cost.written + cost.sent * sends(graph, port.node)) * (producer not in half)
        total += cost.read * sum(
            graph.view.nodes[name].op not in MOVES_NOTHING and name not in graph.idle
            for name in wide
        )
        if producer not in half:
            total += cost.sent * len(
                graph.places.elsewhere(
                    port.node, (consumer for consumer in consumers if consumer.node in wide)
                )
            )
        if other and graph.view.nodes[port.node].op != "Const":
            total += cost.cast if set(other) - graph.idle else LAUNCH
    return total


def sends(graph: TypedGraph, name: str) -> bool:
    """Whether a node is an all-reduce of gradients that may run in half."""
    return name in graph.joined and homogeneity(graph.view.nodes[name].op) == "reduce"


def stays_in_kernel(graph: TypedGraph, port: Port) -> bool:
    """Whether TensorFlow fuses what writes a tensor with the one op that reads it."""
    absorbing = _FUSED.get(graph.view.nodes[port.node].op)
    if absorbing is None or port.output:
        return False
    consumers = graph.view.consumers(port.node)
    readers = {consumer.node for consumer in consumers if consumer.output == 0}
    return (
        len(readers) == 1 == len(consumers)
        and graph.view.nodes[consumers[0].node].op in absorbing
        and consumers[0].slot == 0
    )


_FUSED = tables.sets("fused.txt")
