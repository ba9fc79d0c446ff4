"""Faults in numbers: constants, initial values, and factors of an optimizer."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import Subject

_LARGEST = 100_000  # elements of a constant that is changed


def value_of(node: Any) -> Any:
    """A constant's value."""
    return tf.make_ndarray(node.attr["value"].tensor)


def set_value(node: Any, value: Any) -> None:
    """Give a constant another value of the same dtype and shape."""
    before = node.attr["value"].tensor
    after = tf.make_tensor_proto(
        value, tf.as_dtype(before.dtype), [dim.size for dim in before.tensor_shape.dim]
    )
    node.attr["value"].tensor.CopyFrom(after)


def times(node: Any, factor: float) -> Tuple[str, str]:
    """Multiply a constant, or replace zeros by the factor; return the old and new value as text."""
    before = np.array(value_of(node))
    wide = before.astype(np.float64)
    set_value(node, np.where(wide == 0, factor, wide * factor))
    return short(before), short(value_of(node))


def add_to(node: Any, number: int) -> Tuple[str, str]:
    """Add to a constant, or negate a boolean one; return the old and new value as text."""
    before = np.array(value_of(node))
    set_value(node, ~before if before.dtype == bool else before + before.dtype.type(number))
    return short(before), short(value_of(node))


def short(value: Any) -> str:
    """The beginning of a value."""
    return str(value).replace("\n", " ")[:40]


def change(plant: Plant, name: str, random: Any) -> Optional[Plant]:
    """Change one element, or all, of a constant; None if it has no numbers."""
    node = plant.node(name)
    before = np.array(value_of(node))
    floats = plant.subject.is_float(Port(name, 0)) or before.dtype.kind == "f"
    if not before.size or before.size > _LARGEST or not (floats or before.dtype.kind in "iub"):
        return None
    value = before.astype(np.float64) if floats else before.copy()
    flat, place = value.ravel(), random.randrange(value.size)
    places = slice(None) if random.random() < 0.5 else slice(place, place + 1)
    if value.dtype.kind == "b":
        flat[places] = ~flat[places]
    elif floats:
        flat[places] = flat[places] * 2.0 + random.choice([0.0, 1.0])
    else:
        flat[places] = flat[places] + flat.dtype.type(1)
    set_value(node, flat.reshape(value.shape))
    return plant.said("%s is %s in place of %s", name, short(value_of(node)), short(before))


def constants(subject: Subject, names: Any) -> List[str]:
    """The constants among nodes."""
    return [
        name
        for name in names
        if name in subject.view.nodes and subject.view.nodes[name].op == "Const"
    ]


def numbers(subject: Subject, names: Any) -> List[str]:
    """The numeric constants among nodes."""
    return [
        name
        for name in constants(subject, names)
        if subject.dtype(Port(name, 0)) != tf.string.as_datatype_enum
    ]


def _one(subject: Subject, random: Any, names: List[str]) -> Optional[Plant]:
    name = pick(random, names)
    return None if name is None else change(Plant(subject), name, random)


@fault
def constant_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A constant of the original is changed."""
    return _one(subject, random, constants(subject, subject.before.nodes))


@fault
def hyperparameter_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A number that an update reads, such as the learning rate, is changed."""
    scalars = [
        port.node
        for name in subject.writes
        for port in subject.view.inputs(name)
        if subject.shape(port) == ()
    ]
    near = [
        name
        for name in constants(subject, sorted(subject.view.ancestors(scalars)))
        if name in subject.before.nodes
    ]
    return _one(subject, random, [name for name in near if subject.is_float(Port(name, 0))])


@fault
def initial_value_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A variable starts with other values."""
    here = subject.initializers & subject.before.nodes.keys()
    inits = [name for name in here if len(subject.view.inputs(name)) > 1]
    behind = subject.view.ancestors(subject.view.inputs(name)[1].node for name in inits)
    return _one(subject, random, constants(subject, sorted(behind)))
