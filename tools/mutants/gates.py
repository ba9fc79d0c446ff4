"""Faults of the gates that keep variables unchanged on a skipped step."""

from __future__ import annotations

from typing import Any, List, Optional

from graphmp.graph.structure.view import Port
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import BOOL, INT32, INT64, Slot, Subject
from mutants.wiring import reads_another


@fault
def gate_swapped(subject: Subject, random: Any) -> Optional[Plant]:
    """A selection has its values exchanged, or an update runs on the other side of its Switch."""
    name = pick(random, subject.selects + subject.switches)
    if name is None:
        return None
    plant = Plant(subject)
    if name in subject.selects:
        node = plant.node(name)
        node.input[1], node.input[2] = node.input[2], node.input[1]
        return plant.said("%s chooses the other value", name)
    slot = pick(random, [Slot(c.node, c.slot) for c in subject.view.consumers(name)])
    if slot is None:
        return None
    plant.connect(slot, Port(name, 1 - subject.read(slot).output))
    return plant.said(
        "%s reads %s in place of %s",
        slot.node,
        Port(name, 1 - subject.read(slot).output),
        subject.read(slot),
    )


@fault
def gate_open(subject: Subject, random: Any) -> Optional[Plant]:
    """The new value is written whatever the flag."""
    choosing = subject.selects + subject.merges
    slots = [slot for name in choosing for slot in subject.readers(Port(name, 0))]
    slots += [
        Slot(c.node, c.slot)
        for name in subject.switches
        for c in subject.view.consumers(name)
        if not c.node.startswith("graphmp/")
    ]
    slot = pick(random, slots)
    if slot is None:
        return None
    gate = subject.read(slot).node
    value = subject.read(Slot(gate, 1 if gate in choosing else 0))
    if gate in subject.merges:
        value = subject.read(Slot(value.node, 0))
    plant = Plant(subject)
    plant.connect(slot, value)
    return plant.said("%s reads %s past %s", slot.node, value, gate)


@fault
def gate_keeps_anothers_value(subject: Subject, random: Any) -> Optional[Plant]:
    """On a skipped step a variable takes the value of another one."""
    slots = [Slot(name, 2) for name in subject.selects]
    slots += [Slot(name, 0) for name in subject.merges]
    return other_value(subject, random, slots)


def other_value(subject: Subject, random: Any, slots: List[Slot]) -> Optional[Plant]:
    """One of some values that gates choose from is replaced by another of the same kind."""
    return reads_another(subject, random, pick(random, slots), words="input {slot} of {node} is")


def predicates(subject: Subject) -> List[Slot]:
    """The predicate inputs of gates."""
    return [Slot(name, 0) for name in subject.selects] + [
        Slot(name, 1) for name in subject.switches
    ]


@fault
def gate_by_another_flag(subject: Subject, random: Any) -> Optional[Plant]:
    """The predicate of a gate is another boolean."""
    return reads_another(
        subject, random, pick(random, predicates(subject)), words="{node} is decided by"
    )


@fault
def gate_turned(subject: Subject, random: Any) -> Optional[Plant]:
    """The predicate of a gate is negated."""
    slot = pick(
        random, [slot for slot in predicates(subject) if subject.dtype(subject.read(slot)) == BOOL]
    )
    if slot is None:
        return None
    plant = Plant(subject)
    plant.connect(slot, plant.add("loss_scale/skip/turned", "LogicalNot", [subject.read(slot)]))
    return plant.said("%s is decided by the opposite of %s", slot.node, subject.read(slot))


@fault
def gate_always_open(subject: Subject, random: Any) -> Optional[Plant]:
    """The predicate of a gate is constant."""
    slot = pick(
        random, [slot for slot in predicates(subject) if subject.shape(subject.read(slot)) == ()]
    )
    if slot is None:
        return None
    plant = Plant(subject)
    plant.connect(slot, plant.constant("loss_scale/skip/always", True, BOOL))
    return plant.said("%s is always open", slot.node)


@fault
def old_value_is_read_late(subject: Subject, random: Any) -> Optional[Plant]:
    """The kept value of a gate is read without waiting for the nodes that it waited for."""
    waits = [
        name
        for name in subject.own
        if subject.view.controls(name) and name.endswith(("/old", "/applied", "/zeros"))
    ]
    name = pick(random, waits)
    if name is None:
        return None
    other = random.choice(list(subject.view.controls(name)))
    plant = Plant(subject)
    plant.wait_no_longer(name, other)
    return plant.said("%s no longer waits for %s", name, other)


@fault
def gate_by_two_flags(subject: Subject, random: Any) -> Optional[Plant]:
    """All gates of one flag go by that of another scale, too."""
    flags = sorted(
        {
            port
            for port in map(subject.read, predicates(subject))
            if port.node.split("/")[0::2] == ["graphmp", "finite"]
        }
    )
    if len(flags) < 2:
        return None
    one, other = random.sample(flags, 2)
    if other.node in subject.descendants(one.node):
        return None
    plant = Plant(subject)
    both = plant.add("loss_scale/skip/both", "LogicalAnd", [one, other])
    plant.read_instead(subject.readers(one), both)
    return plant.said("what goes by %s goes by %s too", one, other)


@fault
def count_goes_on(subject: Subject, random: Any) -> Optional[Plant]:
    """A write of whole numbers has no gate: a count of the program's own goes on."""
    places = [
        name
        for name in subject.writes
        if name in subject.before.nodes
        and len(subject.view.inputs(name)) == 2
        and subject.dtype(subject.view.inputs(name)[1]) in (INT32, INT64)
        and subject.is_own(subject.view.inputs(name)[1])
        and not subject.before.nodes[name].op.startswith("Scatter")
    ]
    name = None if subject.frames else pick(random, places)
    if name is None:
        return None
    plant = Plant(subject)
    plant.connect(Slot(name, 1), subject.before.inputs(name)[1])
    plant.remove({gate for gate in subject.view.nodes if "/skip/%s/" % name in gate})
    return plant.said("%s is not gated", name)
