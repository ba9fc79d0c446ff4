"""Faults of the clip by global norm."""

from __future__ import annotations

from typing import Any, Dict, Optional

from graphmp.graph.edit.mark import COLLECTION as MARK
from graphmp.graph.structure.view import Port, parse_input
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


@fault
def clipped_in_parts(subject: Subject, random: Any) -> Optional[Plant]:
    """Gradients of one step are clipped by two norms, each of some of them."""
    packs = [name for name in subject.clips if subject.view.nodes[name].op == "Pack"]
    pack = pick(random, packs) if len(packs) == 1 else None
    if pack is None:
        return None
    products = [
        name
        for name in subject.clips
        if subject.view.nodes[name].op == "Mul"
        and name in subject.descendants(pack)
        and subject.read(Slot(name, 0)).node not in subject.clips
    ]
    squares = subject.view.inputs(pack)
    parts = {name: [each for each in squares if _is_of(subject, name, each)] for name in products}
    if len(products) < 2 or any(len(found) != 1 for found in parts.values()):
        return None
    rest = set(random.sample(products, len(products) // 2))
    plant = Plant(subject)
    twins: Dict[str, Port] = {}
    for name in [pack, *(name for name in subject.clips if name in subject.descendants(pack))]:
        if name in products:
            continue
        node = subject.view.nodes[name]
        attributes = {key: node.attr[key] for key in node.attr}
        twins[name] = plant.add(name[len("graphmp/") :], node.op, node.input, **attributes)
    for twin in twins.values():
        node = plant.node(twin.node)
        node.input[:] = [
            str(twins[parse_input(text).node]) if parse_input(text).node in twins else text
            for text in node.input
        ]
    for place, names in ((pack, set(products) - rest), (twins[pack].node, rest)):
        node = plant.node(place)
        node.input[:] = sorted(str(parts[name][0]) for name in names)
        node.attr["N"].i = len(names)
    for name in rest:
        plant.connect(Slot(name, 1), twins[subject.read(Slot(name, 1)).node])
    return plant.said("%d of %d gradients are clipped apart", len(rest), len(products))


def _is_of(subject: Subject, product: str, square: Port) -> bool:
    """Whether a square is that of the gradient in a product."""
    return subject.read(Slot(square.node, 0)) == subject.read(Slot(product, 0))


@fault
def left_as_it_was(subject: Subject, random: Any) -> Optional[Plant]:
    """Nothing was done where a clip was asked for."""
    if not subject.clips:
        return None
    plant = Plant(subject)
    plant.graph.CopyFrom(subject.original)
    plant.graph.collection_def[MARK].CopyFrom(subject.converted.collection_def[MARK])
    return plant.said("the graph is the original")
