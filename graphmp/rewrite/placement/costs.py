"""The cost model of cast placement: bytes moved by float32 tensors and by casts.

1. Each tensor is written once and read once by each consumer: 2 bytes an element more in float32,
   each time.
2. Ops that pass a tensor on untouched (`moves_nothing` in `policy/traits.txt`) don't write or read
   it.
3. Tensors inside a fused kernel move nothing: `Conv2D -> BiasAdd -> Relu` only writes the Relu's
   result, if there are no other consumers in between (`fused.txt` has the pairs).
4. A cast reads each element in one dtype and writes it in the other, 6 bytes; it serves all
   consumers of that dtype. Its launch costs as much as 262 kB: an H200 takes 5 us for it and moves
   10 MB meanwhile; a CPU takes 9 us and moves 40 kB. A constant costs nothing: there is one of
   each dtype.
5. All of it counts once for each iteration of the loops around it (`graph/shapes/trip_counts.py`);
   a cast of a loop invariant is before the loop.
6. A tensor is sent once to each device with consumers, in half precision if its producer or the
   consumers there are: the cast is on the side that saves it. A byte sent counts as a hundred moved
   in memory. Several elements sent in float32 cost a launch besides, so that a cast always pays.
7. The result of an all-reduce of gradients is sent once more, if it is float32.
8. Nodes that no step runs (`idle`: mostly gradients of constants) move nothing; a cast only for
   them costs 64 bytes, so that there are few.
9. An op whose kernel is slow in half precision (`slow_in_half` there) costs 16 bytes for each
   element that it reads in half, if these are many: more than a cast and float32. It costs no more
   than a cast and float32 of 2**25 elements.

Sizes come from static shapes (`graph/shapes/element_counts.py`), unknown dimensions count as 32.
"""

from __future__ import annotations

from typing import AbstractSet, NamedTuple

from graphmp.graph.structure.frames import is_invariant
from graphmp.graph.structure.view import Port
from graphmp.policy import tables
from graphmp.policy.traits import MOVES_NOTHING, SLOW_ELEMENTS, SLOW_IN_HALF, homogeneity
from graphmp.rewrite.units import TypedGraph

CAST_BYTES = 6  # an element read in one dtype and written in the other
SAVED_BYTES = 2  # of an element in half instead of float32
SENT = 100  # bytes in memory for a byte sent: 10 Gbit Ethernet moves 1.25 GB/s
SLOW_BYTES = 16  # an element read in half by a kernel that is slow in it
SLOW_MOST = (CAST_BYTES + SAVED_BYTES) * SLOW_ELEMENTS.stop  # of one call of it
LAUNCH = 1 << 18  # bytes for the launch of a cast: 0.3 us at the 900 GB/s of a V100
IDLE_CAST = 64  # bytes for a cast that no step runs


class TensorCost(NamedTuple):
    """The cost of one tensor in a step, in bytes, or in nanoseconds if times are known.

    Attributes:
        written: additional bytes to write it in float32.
        read: additional bytes for each float32 consumer that touches it.
        down: of a cast of it to half precision; 0 for a constant.
        up: of a cast of it to float32; 0 for a constant.
        idle: of a cast that only nodes read which no step runs.
        sent: additional bytes for each other device that it is sent to in float32.
    """

    written: float
    read: float
    down: float
    up: float
    idle: float
    sent: float


def costs(graph: TypedGraph, port: Port) -> TensorCost:
    """The costs of a tensor."""
    node = graph.view.nodes[port.node]
    elements = graph.elements.of(port)
    trips = graph.trips(port.node)
    idle = port.node in graph.idle
    moved = 0 if idle or stays_in_kernel(graph, port) else SAVED_BYTES * elements * trips
    casts = graph.trips(graph.view.inputs(port.node)[0].node) if is_invariant(node) else trips
    is_constant = node.op == "Const"
    running = (LAUNCH + CAST_BYTES * elements) * casts
    cast = 0 if is_constant else IDLE_CAST if idle else running
    sending = (elements > 1) * LAUNCH + SENT * SAVED_BYTES * elements
    sent = 0 if idle or is_constant else sending * trips
    written = 0 if node.op in MOVES_NOTHING else moved
    return TensorCost(written, moved, cast, cast, IDLE_CAST, sent)


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
            total += cost.down if set(other) - graph.idle else IDLE_CAST
    return total + sum(
        slowness(graph, name)
        for name in graph.view.nodes
        if not half.isdisjoint(graph.units_of(name))
    )


SLOW_KERNEL = "its kernel is slow in half precision"


def slowness(graph: TypedGraph, name: str) -> float:
    """The cost of half precision at a node whose kernel is slow in it, in bytes; else 0."""
    if graph.view.nodes[name].op not in SLOW_IN_HALF or name in graph.idle:
        return 0.0
    elements = graph.elements.of(graph.view.inputs(name)[0])
    if elements < SLOW_ELEMENTS.start:
        return 0.0
    return float(min(SLOW_BYTES * elements, SLOW_MOST) * graph.trips(name))


def sends(graph: TypedGraph, name: str) -> bool:
    """Whether a node is an all-reduce of gradients that may run in half."""
    return name in graph.joined and homogeneity(graph.view.nodes[name].op) == "reduce"


def stays_in_kernel(graph: TypedGraph, port: Port) -> bool:
    """Whether TensorFlow fuses the producer of a tensor with its only consumer."""
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
