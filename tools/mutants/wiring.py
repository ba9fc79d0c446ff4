"""Faults of wiring: inputs that read another tensor of the same type and shape."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

from graphmp.graph.structure.view import Port
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import Slot, Subject


def reads_another(
    subject: Subject,
    random: Any,
    slot: Optional[Slot],
    fits: Callable[[Port], bool] = lambda port: True,
    words: str = "input {slot} of {node} reads",
) -> Optional[Plant]:
    """An input, if there is one, reads another tensor of the same kind that fits.

    `words` is the beginning of the description.
    """
    others = (
        [port for port in subject.alike(subject.read(slot), slot.node) if fits(port)]
        if slot
        else []
    )
    other = pick(random, others)
    if slot is None or other is None:
        return None
    plant = Plant(subject)
    plant.connect(slot, other)
    return plant.said(
        "%s %s in place of %s", words.format(**slot._asdict()), other, subject.read(slot)
    )


def list_is_shorter(subject: Subject, random: Any, names: Sequence[str]) -> Optional[Plant]:
    """One of some nodes that take a list has one input fewer."""
    name = pick(random, [name for name in names if len(subject.elements(name)) > 1])
    if name is None:
        return None
    slot = Slot(name, random.randrange(len(subject.elements(name))))
    plant = Plant(subject)
    plant.drop_input(slot)
    return plant.said("%s has no %s", name, subject.read(slot))


def rewired(subject: Subject, random: Any, slots: Sequence[Slot]) -> Optional[Plant]:
    """One of some inputs reads another tensor of the same kind."""
    return reads_another(subject, random, pick(random, slots))


@fault
def input_rewired(subject: Subject, random: Any) -> Optional[Plant]:
    """An input of the original reads another tensor."""
    return rewired(
        subject,
        random,
        subject.slots([name for name in subject.before.nodes if name in subject.view.nodes]),
    )


@fault
def own_input_rewired(subject: Subject, random: Any) -> Optional[Plant]:
    """An input of a node added by graphmp reads another tensor."""
    return rewired(subject, random, subject.slots(subject.outside))


@fault
def changed_input_rewired(subject: Subject, random: Any) -> Optional[Plant]:
    """An input changed by the conversion reads another tensor."""
    return rewired(
        subject,
        random,
        [slot for slot in subject.slots(subject.rewired) if _changed(subject, slot)],
    )


@fault
def conversion_undone(subject: Subject, random: Any) -> Optional[Plant]:
    """An input changed by the conversion reads its original tensor again."""
    slots = [slot for slot in subject.slots(subject.rewired) if _changed(subject, slot)]
    slot = pick(random, [s for s in slots if s.slot < len(subject.before.inputs(s.node))])
    if slot is None:
        return None
    plant, port = Plant(subject), subject.before.inputs(slot.node)[slot.slot]
    if port.node not in subject.view.nodes:
        return None
    plant.connect(slot, port)
    return plant.said("input %d of %s reads %s again", slot.slot, slot.node, port)


def _changed(subject: Subject, slot: Slot) -> bool:
    before = subject.before.inputs(slot.node)
    return slot.slot >= len(before) or before[slot.slot] != subject.read(slot)


def values(subject: Subject) -> List[Slot]:
    """The inputs of updates that come from gradients."""
    slots = subject.slots(subject.updates)
    return [
        s
        for s in slots
        if subject.is_float(subject.read(s)) and subject.shape(subject.read(s)) != ()
    ]


@fault
def gradients_exchanged(subject: Subject, random: Any) -> Optional[Plant]:
    """Two variables of one shape take each other's gradients."""
    one = pick(random, values(subject))
    kind = one and subject.kind(subject.read(one))
    other = one and pick(
        random,
        [
            s
            for s in values(subject)
            if s.node != one.node and subject.kind(subject.read(s)) == kind
        ],
    )
    if not other or kind is None:
        return None
    plant = Plant(subject)
    plant.connect(one, subject.read(other))
    plant.connect(other, subject.read(one))
    return plant.said(
        "%s and %s have each other's %s and %s",
        one.node,
        other.node,
        subject.read(one),
        subject.read(other),
    )


@fault
def update_reads_another_gradient(subject: Subject, random: Any) -> Optional[Plant]:
    """An update reads another tensor of the gradient's shape."""
    return rewired(subject, random, values(subject))


@fault
def inputs_exchanged(subject: Subject, random: Any) -> Optional[Plant]:
    """A node reads two of its inputs in exchanged order."""
    name = pick(random, [n for n in subject.view.nodes if len(set(subject.view.inputs(n))) > 1])
    if name is None:
        return None
    one, other = random.sample(range(len(subject.view.inputs(name))), 2)
    plant = Plant(subject)
    plant.connect(Slot(name, one), subject.read(Slot(name, other)))
    plant.connect(Slot(name, other), subject.read(Slot(name, one)))
    return plant.said("%s has inputs %d and %d exchanged", name, one, other)


@fault
def read_at_another_time(subject: Subject, random: Any) -> Optional[Plant]:
    """A variable is read anew, after an update, where an earlier read of it was used."""
    reads = []
    for name, node in subject.view.nodes.items():
        if (
            node.op in ("Identity", "ReadVariableOp")
            and subject.view.inputs(name)
            and subject.read(Slot(name, 0)).node in subject.variables
        ):
            reads += [(slot, name) for slot in subject.readers(Port(name, 0))]
    found = pick(random, reads)
    if found is None:
        return None
    slot, name = found
    behind = subject.descendants(slot.node)
    late = pick(random, [write for write in subject.writes if write not in behind])
    if late is None:
        return None
    plant = Plant(subject)
    node = subject.view.nodes[name]
    key = "T" if node.op == "Identity" else "dtype"
    again = plant.add(
        "loss_scale/read", node.op, [subject.read(Slot(name, 0))], **{key: node.attr[key]}
    )
    plant.wait(again.node, late)
    plant.connect(slot, again)
    return plant.said("%s reads %s behind %s", slot.node, name, late)
