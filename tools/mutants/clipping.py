"""Faults of the clip by global norm."""

from __future__ import annotations

from typing import Any, Optional

from graphmp.graph.structure.view import Port
from mutants.classes import fault, pick
from mutants.constants import times
from mutants.plant import Plant
from mutants.subject import Slot, Subject
from mutants.wiring import list_is_shorter


@fault
def clip_norm_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A number of the clip is changed."""
    floats = [
        name
        for name in subject.clips
        if subject.view.nodes[name].op == "Const" and subject.is_float(Port(name, 0))
    ]
    name = pick(random, floats)
    if name is None:
        return None
    plant = Plant(subject)
    before, after = times(plant.node(name), random.choice([0.0, 0.5, 0.999, 2.0, 1e30, -1.0]))
    return plant.said("%s is %s in place of %s", name, after, before)


@fault
def update_reads_unclipped_gradient(subject: Subject, random: Any) -> Optional[Plant]:
    """A reader of a clipped gradient reads the unclipped one."""
    muls = [
        name
        for name in subject.clips
        if subject.view.nodes[name].op == "Mul" and subject.shape(Port(name, 0)) != ()
    ]
    name = pick(random, muls)
    readers = name and subject.readers(Port(name, 0))
    if not readers:
        return None
    behind = [
        slot
        for reader in readers
        for slot in (
            subject.readers(Port(reader.node, 0)) if reader.node.startswith("graphmp/") else []
        )
    ]
    slot = pick(random, readers + behind)
    plant = Plant(subject)
    plant.connect(slot, subject.read(Slot(name, 0)))
    return plant.said("%s reads %s unclipped", slot.node, subject.read(Slot(name, 0)))


@fault
def norm_leaves_out_a_gradient(subject: Subject, random: Any) -> Optional[Plant]:
    """The norm is of all gradients but one."""
    return list_is_shorter(
        subject, random, [name for name in subject.clips if subject.view.nodes[name].op == "Pack"]
    )


@fault
def norm_counts_a_gradient_twice(subject: Subject, random: Any) -> Optional[Plant]:
    """The norm has one gradient twice and misses another."""
    name = pick(random, [n for n in subject.clips if subject.view.nodes[n].op == "L2Loss"])
    others = name and [
        n
        for n in subject.clips
        if subject.view.nodes[n].op == "L2Loss"
        and subject.dtype(Port(n, 0)) == subject.dtype(Port(name, 0))
    ]
    other = pick(
        random, [n for n in others or [] if subject.read(Slot(n, 0)) != subject.read(Slot(name, 0))]
    )
    if other is None:
        return None
    plant = Plant(subject)
    plant.connect(Slot(name, 0), subject.read(Slot(other, 0)))
    return plant.said(
        "%s is of %s in place of %s",
        name,
        subject.read(Slot(other, 0)),
        subject.read(Slot(name, 0)),
    )
