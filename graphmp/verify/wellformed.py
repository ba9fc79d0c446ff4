"""Conditions that a graph must meet before a proof is possible."""

from __future__ import annotations

from typing import Iterator

from graphmp.graph.structure.cycles import find_cycle
from graphmp.graph.structure.frames import outputs_frame
from graphmp.policy.op_sets import ENTERS
from graphmp.verify.sides import Fault, Side
from graphmp.wording import with_article


def broken(side: Side) -> Iterator[Fault]:
    """Invalid nodes: those in cycles, with missing inputs, or with inputs that don't exist."""
    cycle = find_cycle(side.view)
    if cycle is not None:
        yield Fault(cycle, "waits for itself")
    for name, node in side.view.nodes.items():
        signature, found = side.signature(name), len(side.view.inputs(name))
        wanted = _least_inputs(side, node.op) if signature is None else len(signature.inputs)
        if found < wanted or (signature is not None and found != wanted):
            text = "has %d inputs, and %s takes %d"
            yield Fault(name, text % (found, with_article(node.op), wanted))
        for port in side.view.inputs(name):
            if port.output >= side.outputs(port.node):
                yield Fault(
                    name,
                    "reads %s, an output that %s does not have"
                    % (port, with_article(side.view.nodes[port.node].op)),
                )
        if not side.frames:
            continue
        frame = side.frames.get(name, ())[:-1] if node.op in ENTERS else side.frames.get(name, ())
        for other in {port.node for port in side.view.inputs(name)}.union(side.view.controls(name)):
            if outputs_frame(side.view, other) != frame:
                yield Fault(name, "reads or waits for %s, which runs in another loop" % other)


def _least_inputs(side: Side, op: str) -> int:
    """The minimum number of inputs of an op's nodes; 0 for an unknown op."""
    definition = side.op_defs.get(op)
    if definition is None:
        return 0
    return sum(not (each.number_attr or each.type_list_attr) for each in definition.input_arg)
