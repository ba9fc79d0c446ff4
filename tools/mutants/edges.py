"""Faults of order: missing control edges, and control edges from nodes that may not run."""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence, Tuple

from graphmp.policy.op_sets import SWITCHES
from mutants.classes import fault, first, pick
from mutants.plant import Plant
from mutants.subject import Subject


def dropped(
    subject: Subject,
    random: Any,
    edges: Sequence[Tuple[str, str]],
    words: str = "no longer waits for",
) -> Optional[Plant]:
    """One of some control edges, given as (waiting node, awaited node), is missing."""
    edge = pick(random, edges)
    if edge is None:
        return None
    plant = Plant(subject)
    plant.wait_no_longer(*edge)
    return plant.said("%s %s %s", edge[0], words, edge[1])


def control_edges(subject: Subject, names: Any) -> List[Tuple[str, str]]:
    """The control edges into some nodes, as (waiting node, awaited node)."""
    return [(name, other) for name in names for other in subject.view.controls(name)]


@fault
def control_edge_dropped(subject: Subject, random: Any) -> Optional[Plant]:
    """A control edge of the original is dropped."""
    return dropped(
        subject,
        random,
        control_edges(subject, [n for n in subject.before.nodes if n in subject.view.nodes]),
    )


@fault
def own_control_edge_dropped(subject: Subject, random: Any) -> Optional[Plant]:
    """A control edge of a node added by graphmp is dropped."""
    return dropped(subject, random, control_edges(subject, subject.outside))


@fault
def train_no_longer_waits(subject: Subject, random: Any) -> Optional[Plant]:
    """The ops that run a step no longer wait for an update."""
    writes = set(subject.writes)
    alive = {name for name in subject.own if name.endswith("/alive")}
    edges = [
        edge
        for edge in control_edges(subject, subject.view.nodes)
        if edge[1] in writes or edge[1] in alive
    ]
    return dropped(subject, random, edges)


@fault
def control_edge_from_a_conditional(subject: Subject, random: Any) -> Optional[Plant]:
    """A node waits for one that runs on only one side of a conditional."""
    switches = [name for name, node in subject.view.nodes.items() if node.op in SWITCHES]
    sides = [c.node for name in switches for c in subject.view.consumers(name)]
    sides = [
        name
        for name in sides
        if subject.view.nodes[name].op in ("Identity", "Cast", "Abs", "Reshape")
    ]
    side = pick(random, [name for name in sides if not subject.frame(name)])
    readers = sorted(
        {
            *subject.writes,
            *subject.own,
            *(s for s in subject.before.nodes if re.search(r"(^|/)(train|gradients)", s)),
        }
    )
    reader = side and first(
        random,
        [n for n in readers if n in subject.view.nodes],
        lambda name: side not in subject.descendants(name),
    )
    if not reader:
        return None
    plant = Plant(subject)
    plant.wait(reader, side)
    return plant.said("%s waits for %s, which may not run", reader, side)
