"""Nodes that run only if a conditional takes their branch."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Mapping, Set, Tuple

from graphmp.graph.structure.frames import is_invariant
from graphmp.graph.structure.order import whole_order
from graphmp.graph.structure.view import GraphView, Port
from graphmp.once import remembered
from graphmp.policy.op_sets import MERGES, NEXT_ITERATIONS, SWITCHES

Conditions = FrozenSet[Tuple[Port, int]]
_ALWAYS: Conditions = frozenset()


def conditional(view: GraphView) -> Set[str]:
    """Nodes outside of while loops that a conditional may skip, including whole loops on one side.

    Nodes inside loops are unspecified.
    """
    return set(conditions(view))


@remembered
def conditions(view: GraphView) -> Dict[str, Conditions]:
    """The sides of predicates that each such node requires.

    1. A consumer of a Switch, by data or control, runs only on that side of its predicate; so do
       its descendants.
    2. A Merge of both sides of a predicate runs whenever the conditional does. Any other node runs
       only if all its inputs do.
    3. The Switches of a loop don't count: the nodes after the loop always run.
    """
    if not any(node.op in SWITCHES for node in view.nodes.values()):
        return {}
    found: Dict[str, Conditions] = {}
    switches = {name for name, node in view.nodes.items() if node.op in SWITCHES}
    for name in whole_order(view):
        controls = [found[control] for control in view.controls(name) if control in found]
        if not controls and not any(
            port[0] in found or port[0] in switches for port in view.inputs(name)
        ):
            continue  # nothing that it takes is conditional
        reads = [
            sides(view, found, port)
            for port in view.inputs(name)
            if view.nodes[port.node].op not in NEXT_ITERATIONS
        ]
        op = view.nodes[name].op
        own = (_merged(reads) if op in MERGES else _ALWAYS.union(*reads)).union(*controls)
        if own:
            found[name] = own
    return found


def sides(view: GraphView, found: Mapping[str, Conditions], port: Port) -> Conditions:
    """The sides of predicates on which an output exists, given those of nodes."""
    own = found.get(port.node, _ALWAYS)
    if view.nodes[port.node].op not in SWITCHES:
        return own
    predicate = source(view, view.inputs(port.node)[1])
    return own if _is_of_loop(view, port.node) else own | {(predicate, port.output)}


def _merged(sides: List[Conditions]) -> Conditions:
    both = frozenset.intersection(*sides)
    opposite = any(
        (predicate, 1 - side) in other
        for one in sides
        for predicate, side in one
        for other in sides
    )
    return both if opposite or len(sides) == 1 else frozenset().union(*sides)


def source(view: GraphView, port: Port) -> Port:
    """The source of a predicate, through copies, entered loops and its own sides."""
    while _hands_on(view, port.node):
        port = view.inputs(port.node)[0]
    return port


def _hands_on(view: GraphView, name: str) -> bool:
    node = view.nodes[name]
    return (
        node.op == "Identity"
        or is_invariant(node)
        or (node.op in SWITCHES and not _is_of_loop(view, name))
    )


def _is_of_loop(view: GraphView, switch: str) -> bool:
    predicate = view.behind(view.inputs(switch)[1], ["Identity"])
    return bool(view.nodes[predicate.node].op == "LoopCond")
