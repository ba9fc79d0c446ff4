"""Which nodes run only where a conditional goes their way."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Set, Tuple

from graphmp.graph.control_flow import MERGES, NEXT_ITERATIONS, SWITCHES
from graphmp.graph.order import in_order
from graphmp.graph.view import GraphView, Port

Conditions = FrozenSet[Tuple[Port, int]]


def conditional(view: GraphView) -> Set[str]:
    """Nodes outside of while loops that some conditional may leave out, whole loops on one side of it included; those inside of loops unspecified."""
    return set(conditions(view))


def conditions(view: GraphView) -> Dict[str, Conditions]:
    """For each such node the sides of predicates that it runs on alone.

    1. What reads a Switch, by data or control, runs on that side of its predicate only, and so does all behind it.
    2. A Merge of both sides of a predicate runs wherever the conditional does; of anything else no less rarely than all that it reads.
    3. The Switches of a loop don't count: what lies behind the loop always runs.
    """
    if not any(node.op in SWITCHES for node in view.nodes.values()):
        return {}
    found: Dict[str, Conditions] = {}
    for name in in_order(view, set(view.nodes)):
        reads = [_conditions(view, found, port) for port in view.inputs(name) if view.nodes[port.node].op not in NEXT_ITERATIONS]
        controls = [found[control] for control in view.controls(name)]
        op = view.nodes[name].op
        found[name] = (_merged(reads) if op in MERGES else frozenset().union(*reads)).union(*controls)
    return {name: sides for name, sides in found.items() if sides}


def _conditions(view: GraphView, found: Dict[str, Conditions], port: Port) -> Conditions:
    if view.nodes[port.node].op not in SWITCHES:
        return found[port.node]
    predicate = _source(view, view.inputs(port.node)[1])
    return found[port.node] if view.nodes[predicate.node].op == "LoopCond" else found[port.node] | {(predicate, port.output)}


def _merged(sides: List[Conditions]) -> Conditions:
    both = frozenset.intersection(*sides)
    opposite = any((predicate, 1 - side) in other for one in sides for predicate, side in one for other in sides)
    return both if opposite or len(sides) == 1 else frozenset().union(*sides)


def _source(view: GraphView, port: Port) -> Port:
    while view.nodes[port.node].op == "Identity":
        port = view.inputs(port.node)[0]
    return port
