"""Faults that add nodes below graphmp/: on an edge, or as a write."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from mutants.classes import fault, first, pick
from mutants.plant import Plant
from mutants.subject import FLOAT32, Slot, Subject


def on_an_edge(
    subject: Subject, random: Any, slots: List[Slot], made: Callable[[Plant, Port], Port], word: str
) -> Optional[Plant]:
    """Insert a node on the edge to one of some inputs."""
    slot = pick(random, slots)
    if slot is None:
        return None
    plant = Plant(subject)
    plant.connect(slot, made(plant, subject.read(slot)))
    return plant.said("input %d of %s reads %s %s", slot.slot, slot.node, subject.read(slot), word)


def float_edges(subject: Subject) -> List[Slot]:
    """The float32 and half-precision inputs at which the conversion changed the graph."""
    slots = subject.slots([*subject.rewired, *subject.outside, *subject.updates])
    return [s for s in slots if subject.is_float(subject.read(s))]


def _times(number: float) -> Callable[[Plant, Port], Port]:
    def made(plant: Plant, port: Port) -> Port:
        dtype = plant.subject.dtype(port)
        return plant.add(
            "loss_scale/product",
            "Mul",
            [port, plant.constant("loss_scale/factor", number, dtype)],
            T=dtype,
        )

    return made


def unary(op: str) -> Callable[[Plant, Port], Port]:
    """A change of an edge: a node of one input, of an op that keeps the dtype."""
    return lambda plant, port: plant.add(
        "loss_scale/" + op.lower(), op, [port], T=plant.subject.dtype(port)
    )


@fault
def doubled_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """A value is read multiplied by 2."""
    return on_an_edge(subject, random, float_edges(subject), _times(2.0), "times 2")


@fault
def negated_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """A value is read negated."""
    return on_an_edge(subject, random, float_edges(subject), unary("Neg"), "negated")


@fault
def zero_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """Zeros are read instead of a value."""
    return on_an_edge(subject, random, float_edges(subject), unary("ZerosLike"), "as zeros")


@fault
def rounded_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """A value is read rounded to integers, or with non-finite elements replaced."""
    op = random.choice(["Floor", "Relu", "Abs"])
    return on_an_edge(subject, random, float_edges(subject), unary(op), "through " + op)


@fault
def identity_of_another(subject: Subject, random: Any) -> Optional[Plant]:
    """An added Identity returns another tensor of the same kind."""
    slot = pick(random, float_edges(subject))
    other = slot and pick(random, subject.alike(subject.read(slot), slot.node))
    if not other:
        return None
    plant = Plant(subject)
    plant.connect(
        slot, plant.add("loss_scale/identity", "Identity", [other], T=subject.dtype(other))
    )
    return plant.said(
        "input %d of %s reads an Identity of %s in place of %s",
        slot.slot,
        slot.node,
        other,
        subject.read(slot),
    )


def write(plant: Plant, random: Any, variable: str) -> Optional[Port]:
    """Add a write of a float32 variable; None for another type or an unknown shape."""
    node = plant.subject.view.nodes[variable]
    if node.attr["dtype"].type != FLOAT32:
        return None
    if node.op == "VarHandleOp":
        shape = node.attr["shape"].shape
        zeros = [dim.size for dim in shape.dim]
        if shape.unknown_rank or -1 in zeros:
            return None
        value = plant.add("loss_scale/fill", "Fill", _filled(plant, zeros), T=FLOAT32)
        op = random.choice(["AssignVariableOp", "AssignAddVariableOp"])
        return plant.add("loss_scale/write", op, [Port(variable, 0), value], dtype=FLOAT32)
    read = plant.add("loss_scale/zeros", "ZerosLike", [Port(variable, 0)], T=FLOAT32)
    op, value = random.choice(
        [("Assign", read), ("AssignAdd", Port(variable, 0)), ("AssignSub", Port(variable, 0))]
    )
    return plant.add("loss_scale/write", op, [Port(variable, 0), value], T=FLOAT32)


def _filled(plant: Plant, shape: List[int]) -> List[Port]:
    int32 = tf.int32.as_datatype_enum
    return [
        plant.constant("loss_scale/shape", np.array(shape, np.int32), int32),
        plant.constant("loss_scale/value", 0.25, FLOAT32),
    ]


@fault
def write_added(subject: Subject, random: Any) -> Optional[Plant]:
    """A step writes a variable once more, by a node below graphmp/."""
    variable = pick(random, subject.variables)
    readers = [
        name
        for name in [*subject.updates, *subject.rewired, *subject.own]
        if not subject.frame(name)
    ]
    reader = variable and first(
        random, readers, lambda name: variable not in subject.descendants(name)
    )
    if not reader:
        return None
    plant = Plant(subject)
    written = write(plant, random, variable)
    if written is None:
        return None
    plant.wait(reader, written.node)
    return plant.said("%s waits for a write of %s", reader, variable)
