"""Faults of precision: other half types, casts too many or too few."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.view import Port
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import FLOAT32, FLOATS, Slot, Subject

FLOAT16, BFLOAT16 = tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum
_HALVES = {FLOAT16: BFLOAT16, BFLOAT16: FLOAT16}


def cast(plant: Plant, port: Port, source: int, target: int) -> Port:
    """Adds a cast."""
    return plant.add("cast", "Cast", [port], SrcT=source, DstT=target)


def computed_in(subject: Subject, name: str, dtype: int) -> Optional[Plant]:
    """A node whose attribute T is a float type computes in another, between casts; None where it can't."""
    node, signature = subject.view.nodes[name], subject.signature(name)
    if "T" not in node.attr or signature is None or not subject.defs.allows(node.op, "T", dtype):
        return None
    mine = node.attr["T"].type
    if mine not in FLOATS or mine == dtype or any(p.is_ref for p in signature.inputs + signature.outputs):
        return None
    plant = Plant(subject)
    plant.node(name).attr["T"].type = dtype
    for slot, wanted in enumerate(signature.inputs):
        if wanted.attribute == "T":
            plant.connect(Slot(name, slot), cast(plant, subject.read(Slot(name, slot)), mine, dtype))
    for output, given in enumerate(signature.outputs):
        readers = subject.readers(Port(name, output))
        if given.attribute == "T" and readers:
            plant.read_instead(readers, cast(plant, Port(name, output), dtype, mine))
    return plant.said("%s computes in %s", name, tf.as_dtype(dtype).name)


def _typed(subject: Subject, names: Any, dtypes: Any) -> List[str]:
    return [name for name in names if "T" in subject.view.nodes[name].attr and subject.view.nodes[name].attr["T"].type in dtypes]


def _one(subject: Subject, random: Any, names: List[str], dtypes: List[int]) -> Optional[Plant]:
    name = pick(random, names)
    return None if name is None else computed_in(subject, name, random.choice(dtypes))


@fault
def computed_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A float32 op of the original computes in half precision."""
    return _one(subject, random, _typed(subject, subject.before.nodes, (FLOAT32,)), [FLOAT16, BFLOAT16])


@fault
def own_computed_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An op of the scale's arithmetic computes in half precision."""
    return _one(subject, random, _typed(subject, subject.own, (FLOAT32,)), [FLOAT16, BFLOAT16])


@fault
def computed_in_the_other_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A half-precision op computes in the other half type."""
    name = pick(random, _typed(subject, subject.view.nodes, tuple(_HALVES)))
    return None if name is None else computed_in(subject, name, _HALVES[subject.view.nodes[name].attr["T"].type])


@fault
def computed_in_float32(subject: Subject, random: Any) -> Optional[Plant]:
    """A half-precision op computes in float32, between casts that nobody explains."""
    return _one(subject, random, _typed(subject, subject.view.nodes, tuple(_HALVES)), [FLOAT32])


def _through(subject: Subject, random: Any, names: Any, dtypes: List[int]) -> Optional[Plant]:
    slots = [slot for slot in subject.slots(names) if subject.is_float(subject.read(slot))]
    slot = pick(random, slots)
    if slot is None:
        return None
    mine = subject.dtype(subject.read(slot))
    dtype = random.choice([other for other in dtypes if other != mine] or [FLOAT32])
    plant = Plant(subject)
    plant.connect(slot, cast(plant, cast(plant, subject.read(slot), mine, dtype), dtype, mine))
    return plant.said("input %d of %s is rounded to %s", slot.slot, slot.node, tf.as_dtype(dtype).name)


@fault
def rounded_to_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An input that the conversion left alone is rounded to half precision and back."""
    return _through(subject, random, subject.before.nodes, [FLOAT16, BFLOAT16])


@fault
def own_rounded_to_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An input of what graphmp has put in is rounded to half precision and back."""
    return _through(subject, random, [*subject.outside, *subject.updates], [FLOAT16, BFLOAT16])


@fault
def cast_removed(subject: Subject, random: Any) -> Optional[Plant]:
    """A half-precision op that casts lead to or away from computes in float32, without these casts."""
    near = {slot.node for name in subject.casts for slot in subject.readers(Port(name, 0))}
    near |= {subject.read(Slot(name, 0)).node for name in subject.casts}
    name = pick(random, _typed(subject, sorted(near), tuple(_HALVES)))
    plant = None if name is None else computed_in(subject, name, FLOAT32)
    if plant is None:
        return None
    for slot in range(len(subject.view.inputs(name))):
        before = subject.read(Slot(name, slot)).node
        if before in subject.casts and subject.dtype(subject.read(Slot(before, 0))) == FLOAT32:
            plant.connect(Slot(name, slot), subject.read(Slot(before, 0)))
    for reader in subject.readers(Port(name, 0)):
        if reader.node in subject.casts and subject.dtype(Port(reader.node, 0)) == FLOAT32:
            plant.read_instead(subject.readers(Port(reader.node, 0)), Port(name, 0))
    return plant.said("without the casts beside it")
