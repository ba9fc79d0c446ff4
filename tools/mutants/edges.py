"""Faults of order: missing control edges, and control edges from nodes that may not run."""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence, Tuple

from graphmp.policy.op_sets import SWITCHES
from mutants.classes import fault, first, pick
from mutants.plant import Plant
from mutants.subject import FLOATS, Slot, Subject


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


@fault
def own_node_waits_for_an_effect(subject: Subject, random: Any) -> Optional[Plant]:
    """A cast, or a multiplication by the scale, waits for a write or a random number."""
    effects = [
        name
        for name, node in subject.before.nodes.items()
        if name in subject.view.nodes
        and not subject.frame(name)
        and (name in subject.writes or node.op in ("RandomUniform", "TruncatedNormal"))
    ]
    names = [
        name
        for name in (*subject.casts, *subject.seeds)
        if not subject.frame(name) and subject.view.consumers(name)
    ]
    name, other = pick(random, names), pick(random, effects)
    if name is None or other is None or other in subject.descendants(name):
        return None
    outside = set(subject.outside)
    through = subject.view.followed([name], outside.__contains__)
    readers = {consumer.node for each in through for consumer in subject.view.consumers(each)}
    if readers - outside <= subject.before.descendants([other]):
        return None
    plant = Plant(subject)
    plant.wait(name, other)
    return plant.said("%s waits for %s", name, other)


@fault
def step_initialises_the_scale(subject: Subject, random: Any) -> Optional[Plant]:
    """The node that groups a step's writes also runs the initialisers of the scale."""
    starts = [name for name in subject.own if name.endswith(("_steps/Assign", "scale/Assign"))]
    groups = [
        name
        for name, node in subject.before.nodes.items()
        if node.op == "NoOp"
        and name in subject.view.nodes
        and subject.before.ancestors([name]) & set(subject.updates)
    ]
    name = pick(random, groups)
    if name is None or not starts or set(starts) & subject.view.ancestors([name]):
        return None
    plant = Plant(subject)
    for other in starts:
        plant.wait(name, other)
    return plant.said("%s waits for %s", name, ", ".join(starts))


@fault
def unrelated_write_gated(subject: Subject, random: Any) -> Optional[Plant]:
    """A write that is run alone goes by the flag of a step, and so runs all of it."""
    flags = sorted({subject.read(Slot(name, 1)) for name in subject.switches})
    ends = {name for name in subject.updates for name in subject.before.descendants([name])}
    writes = [
        name
        for name in subject.writes
        if subject.view.nodes[name].op in ("AssignAdd", "AssignAddVariableOp")
        and not subject.frame(name)
        and subject.read(Slot(name, 1)).node in subject.before.nodes
        and name not in ends
        and not subject.before.descendants([name]) & ends
    ]
    name, flag = pick(random, writes), pick(random, flags)
    if name is None or flag is None or flag.node in subject.descendants(name):
        return None
    value = subject.read(Slot(name, 1))
    dtype = subject.dtype(value)
    plant = Plant(subject)
    zeros = plant.add("loss_scale/skip/zeros", "ZerosLike", [value], T=dtype)
    if dtype in FLOATS:
        zeros = plant.add("loss_scale/skip/none", "Neg", [zeros], T=dtype)
    plant.connect(
        Slot(name, 1), plant.add("loss_scale/skip/value", "Select", [flag, value, zeros], T=dtype)
    )
    return plant.said("%s goes by %s", name, flag)
