"""Positions: what becomes indexes, boxes or fractions of a large value stays float32.

Half precision is off by one at 256 (bfloat16) or 2,048 (float16): another element is read, and the
fraction between two elements is 0.

1. A float that is cast to an integer which steers an op on floats: the indexes of a Gather, a
   slice, a one-hot. `MatMul -> Tanh -> Mul -> Floor -> Cast -> Gather` is float32 from the MatMul.
2. Boxes, offsets and transformations that an op reads as float32 (`traits.txt`, reads_positions).
3. A value less its Floor or Ceil, and what a remainder is taken of.

How far back, `origins.py` says.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, Set, Tuple

from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import INTEGERS
from graphmp.policy.op_sets import ADDS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import RANGE_GUARD, Reason
from graphmp.policy.traits import (
    FORGETS_VALUES,
    MOVES_NOTHING,
    NEXT_INTEGER,
    READS_POSITIONS,
    REMAINDER,
)
from graphmp.rewrite.range_guard.origins import Origins
from graphmp.rewrite.units import OTHER, TypedGraph

_FRACTION = Reason(RANGE_GUARD, "leads to a fraction of a value that may be large")


def positions(
    graph: TypedGraph, policy: Policy, computed: AbstractSet[str]
) -> Iterator[Tuple[int, Reason]]:
    """Units that must not round positions, with reasons.

    `computed` are the nodes behind matmuls and convolutions.
    """
    forward = graph.view.in_graph_order(computed - graph.gradients)
    origins = Origins(graph, policy)
    for name in forward:
        ports, op = graph.view.inputs(name), graph.view.nodes[name].op
        reader = next(_steered(graph, name), "") if _is_to_integer(graph, name) else ""
        for slot, port in enumerate(ports):
            direct = "%s/%d" % (op, slot) in READS_POSITIONS
            words = "leads to the positions that %s reads" % (name if direct else reader)
            if (direct or reader) and port.node in computed:
                reason = Reason(RANGE_GUARD, words, name if direct else reader)
                units = origins.behind(port, to_product=True, scaled=direct)
                yield from ((unit, reason) for unit in units)
    for name in forward:
        op = graph.view.nodes[name].op
        rounds = op in NEXT_INTEGER or _is_to_integer(graph, name)
        if op in REMAINDER or (rounds and _leaves_a_fraction(graph, name)):
            units = origins.behind(graph.view.inputs(name)[0], to_product=True)
            yield from ((unit, _FRACTION) for unit in units)


def _is_to_integer(graph: TypedGraph, name: str) -> bool:
    node = graph.view.nodes[name]
    is_float = node.op == "Cast" and graph.reading(name, 0) >= 0
    return is_float and node.attr["DstT"].type in INTEGERS


def _steered(graph: TypedGraph, name: str) -> Iterator[str]:
    """Nodes of the forward pass with float32 results that integers made of a node steer."""
    seen: Set[str] = {name}
    waiting = [name]
    while waiting:
        for consumer in graph.view.consumers(waiting.pop()):
            reader, op = consumer.node, graph.view.nodes[consumer.node].op
            if reader in seen or reader in graph.gradients or op in FORGETS_VALUES:
                continue
            signature = graph.signature(reader)
            if graph.reader(consumer) != OTHER or signature is None:
                continue
            seen.add(reader)
            outputs = range(len(signature.outputs))
            if any(graph.writer(Port(reader, output)) >= 0 for output in outputs):
                if op != "Cast":
                    yield reader
            elif any(port.dtype in INTEGERS for port in signature.outputs):
                waiting.append(reader)


def _leaves_a_fraction(graph: TypedGraph, name: str) -> bool:
    """Whether what a node rounds and the rounded value are subtracted."""
    rounded = _moved(graph, Port(name, 0), ADDS | {"Sub", "Cast"})
    given = _moved(graph, graph.view.inputs(name)[0], MOVES_NOTHING)
    for port in rounded:
        for consumer in graph.view.consumers(port.node):
            if graph.view.nodes[consumer.node].op == "Sub" and consumer.node not in graph.gradients:
                sides = set(graph.view.inputs(consumer.node))
                if sides & given and sides & rounded:
                    return True
    return False


def _moved(graph: TypedGraph, start: Port, ops: AbstractSet[str]) -> Set[Port]:
    """Tensors with the values of another, a constant added where a node is a sum.

    Nodes of `ops` count, and those that move nothing.
    """
    found, waiting = {start}, [start]
    while waiting:
        port = waiting.pop()
        for consumer in graph.view.consumers(port.node):
            name, after = consumer.node, Port(consumer.node, 0)
            others = [each.node for each in graph.view.inputs(name) if each != port]
            plain = all(graph.view.nodes[each].op == "Const" for each in others)
            passes = graph.view.nodes[name].op in ops | MOVES_NOTHING and plain
            if consumer.output == port.output and passes and after not in found:
                found.add(after)
                waiting.append(after)
    return found
