"""Faults of the finite check: the gradients that it covers, and its result."""

from __future__ import annotations

from typing import Any, Optional

from graphmp.graph.structure.view import Port
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import BOOL, Slot, Subject
from mutants.wiring import list_is_shorter


@fault
def gradient_left_out_of_check(subject: Subject, random: Any) -> Optional[Plant]:
    """A list of what is checked misses one."""
    return list_is_shorter(subject, random, subject.packs)


@fault
def gradient_checked_for_another(subject: Subject, random: Any) -> Optional[Plant]:
    """A check reads another gradient of any shape, which is then checked twice."""
    checks = [name for name in subject.own if subject.view.nodes[name].op == "IsFinite"]
    name = pick(random, checks)
    read = {subject.read(Slot(other, 0)) for other in checks}
    mine = name and subject.read(Slot(name, 0))
    alike = [
        p
        for p in sorted(read)
        if p != mine
        and name
        and subject.dtype(p) == subject.dtype(mine)
        and p.node not in subject.descendants(name)
    ]
    other = pick(random, alike)
    if not other:
        return None
    plant = Plant(subject)
    plant.connect(Slot(name, 0), other)
    return plant.said("%s looks at %s in place of %s", name, other, mine)


@fault
def check_twice_in_list(subject: Subject, random: Any) -> Optional[Plant]:
    """A list of what is checked has one entry twice, and another not at all."""
    name = pick(random, [name for name in subject.packs if len(subject.elements(name)) > 1])
    if name is None:
        return None
    one, other = random.sample(range(len(subject.elements(name))), 2)
    plant = Plant(subject)
    plant.connect(Slot(name, one), subject.read(Slot(name, other)))
    return plant.said(
        "%s has %s in place of %s",
        name,
        subject.read(Slot(name, other)),
        subject.read(Slot(name, one)),
    )


@fault
def check_always_true(subject: Subject, random: Any) -> Optional[Plant]:
    """A reader of a flag below graphmp/ reads a constant."""
    flags = [
        slot
        for slot in subject.slots(subject.own)
        if subject.dtype(subject.read(slot)) == BOOL and subject.shape(subject.read(slot)) == ()
    ]
    slot = pick(
        random,
        [slot for slot in flags if subject.view.nodes[slot.node].op not in ("Enter", "Exit")],
    )
    if slot is None:
        return None
    plant, value = Plant(subject), bool(random.random() < 0.8)
    plant.connect(slot, plant.constant("loss_scale/always", value, BOOL))
    return plant.said("%s reads %s in place of %s", slot.node, value, subject.read(slot))


@fault
def check_turned(subject: Subject, random: Any) -> Optional[Plant]:
    """A reader of a flag reads its opposite."""
    slots = [
        slot
        for name in subject.outside
        for slot in subject.readers(Port(name, 0))
        if subject.dtype(Port(name, 0)) == BOOL
    ]
    slot = pick(
        random, [slot for slot in slots if not subject.port_type(subject.read(slot)).is_ref]
    )
    if slot is None:
        return None
    plant = Plant(subject)
    plant.connect(slot, plant.add("loss_scale/turned", "LogicalNot", [subject.read(slot)]))
    return plant.said("%s reads the opposite of %s", slot.node, subject.read(slot))


@fault
def another_step_is_checked_too(subject: Subject, random: Any) -> Optional[Plant]:
    """The flag of one scale looks at a gradient of another scale's step besides."""
    rows = [name for name in subject.own if subject.view.nodes[name].op == "ConcatV2"]
    pairs = [
        (name, port)
        for name in rows
        for other in rows
        for port in subject.view.inputs(other)[:-1]
        if name.split("/")[1] != other.split("/")[1] and port.node not in subject.descendants(name)
    ]
    found = pick(random, pairs)
    if found is None:
        return None
    name, port = found
    plant = Plant(subject)
    node = plant.node(name)
    node.input.insert(0, str(port))
    node.attr["N"].i += 1
    return plant.said("%s has %s too", name, port)
