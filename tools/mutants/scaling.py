"""Faults of the scale: in the seeds of gradients, and in the unscaling after gradient code."""

from __future__ import annotations

from typing import Any, Optional

from graphmp.graph.structure.view import Port
from mutants.casts import BFLOAT16, FLOAT16
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import FLOAT32, Slot, Subject
from mutants.wiring import reads_another


@fault
def unscale_divides_by_one(subject: Subject, random: Any) -> Optional[Plant]:
    """A constant replaces the scale."""
    name = pick(random, subject.unscales)
    if name is None:
        return None
    plant = Plant(subject)
    plant.connect(Slot(name, 1), plant.constant("loss_scale/one", 1.0, FLOAT32))
    return plant.said("%s divides by 1", name)


@fault
def unscale_divides_by_another_scale(subject: Subject, random: Any) -> Optional[Plant]:
    """Another number below graphmp/ replaces the scale."""
    return _by_another(subject, random, subject.unscales)


@fault
def seed_multiplied_by_another_scale(subject: Subject, random: Any) -> Optional[Plant]:
    """Another number below graphmp/ replaces the scale in a seed."""
    return _by_another(subject, random, subject.seeds)


def _by_another(subject: Subject, random: Any, names: Any) -> Optional[Plant]:
    name = pick(random, names)
    return reads_another(
        subject, random, Slot(name, 1) if name else None, subject.is_own, "{node} takes"
    )


@fault
def unscale_left_out(subject: Subject, random: Any) -> Optional[Plant]:
    """A reader of an unscaled gradient reads it scaled."""
    return _passed_by(subject, random, subject.unscales)


@fault
def seed_not_scaled(subject: Subject, random: Any) -> Optional[Plant]:
    """A reader of a scaled seed reads it unscaled."""
    return _passed_by(subject, random, subject.seeds)


def _passed_by(subject: Subject, random: Any, names: Any) -> Optional[Plant]:
    name = pick(random, names)
    slot = name and pick(random, subject.readers(Port(name, 0)))
    if not slot:
        return None
    plant = Plant(subject)
    plant.connect(slot, subject.read(Slot(name, 0)))
    return plant.said("%s reads past %s", slot.node, name)


@fault
def unscale_of_another_gradient(subject: Subject, random: Any) -> Optional[Plant]:
    """An unscale reads the input of another one of the same shape."""
    name = pick(random, subject.unscales)
    if name is None:
        return None
    mine = subject.read(Slot(name, 0))
    others = {subject.read(Slot(other, 0)) for other in subject.unscales}
    other = pick(random, [port for port in subject.alike(mine, name) if port in others])
    if other is None:
        return None
    plant = Plant(subject)
    plant.connect(Slot(name, 0), other)
    return plant.said("%s unscales %s in place of %s", name, other, mine)


@fault
def seed_scaled_twice(subject: Subject, random: Any) -> Optional[Plant]:
    """A reader of a scaled seed reads it scaled once more."""
    return once_more(subject, random, subject.seeds)


def once_more(subject: Subject, random: Any, names: Any) -> Optional[Plant]:
    """A reader of one of some nodes reads its value with the scale applied twice."""
    name = pick(random, names)
    slot = name and pick(random, subject.readers(Port(name, 0)))
    if not slot:
        return None
    plant = Plant(subject)
    again = plant.add(
        "loss_scale/again",
        subject.view.nodes[name].op,
        [Port(name, 0), subject.read(Slot(name, 1))],
        T=FLOAT32,
    )
    plant.connect(slot, again)
    return plant.said("%s reads %s with the scale taken once more", slot.node, name)


@fault
def scaled_and_unscaled_twice(subject: Subject, random: Any) -> Optional[Plant]:
    """Gradients are multiplied by the square of the scale, and divided by it; some are half."""
    behind = subject.view.descendants(subject.seeds, control=False)
    if not subject.unscales or not any(
        subject.dtype(Port(name, 0)) in (FLOAT16, BFLOAT16) for name in behind
    ):
        return None
    plant = Plant(subject)
    for name in (*subject.seeds, *subject.unscales):
        node = subject.view.nodes[name]
        again = plant.add(
            "loss_scale/again", node.op, [Port(name, 0), node.input[1]], T=node.attr["T"].type
        )
        plant.read_instead(subject.readers(Port(name, 0)), again)
    return plant.said("%d seeds and gradients are scaled twice", len(subject.seeds))


@fault
def one_loss_left_unscaled(subject: Subject, random: Any) -> Optional[Plant]:
    """One seed of several is not multiplied by the scale, and its gradients aren't divided."""
    seed = pick(random, subject.seeds) if len(subject.seeds) > 1 and not subject.frames else None
    if seed is None:
        return None
    gone = {seed, *set(subject.unscales) & subject.descendants(seed)}
    plant = Plant(subject)
    for name in sorted(gone):
        plant.read_instead(subject.readers(Port(name, 0)), subject.read(Slot(name, 0)))
    plant.remove(gone)
    return plant.said("%s and what it scales are not scaled", seed)
