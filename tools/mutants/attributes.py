"""Faults of attributes."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import Subject

# Attributes for placement, output shapes, types and lists: another value leaves the computation
# unchanged, or makes the graph invalid.
_SAY_NOTHING = frozenset(
    (
        "T",
        "dtype",
        "Tidx",
        "Tdim",
        "Tindices",
        "Tshape",
        "out_type",
        "shape",
        "N",
        "value",
        "frame_name",
    )
)
_TEXTS = {
    "padding": ["SAME", "VALID"],
    "data_format": ["NHWC", "NCHW"],
    "reduction": ["mean", "sum"],
    "shared_name": ["another"],
    "container": ["another"],
    "mode": ["REFLECT", "SYMMETRIC"],
    "direction": ["forward", "backward"],
}


def _values(subject: Subject, name: str) -> Dict[str, Any]:
    """The attributes of a node that could have another value, including defaults."""
    node, definition = subject.view.nodes[name], subject.defs.get(subject.view.nodes[name].op)
    found = {
        a.name: a.default_value
        for a in (definition.attr if definition is not None else ())
        if a.HasField("default_value")
    }
    found.update({key: value for key, value in node.attr.items() if not key.startswith("_")})
    return {
        key: found[key]
        for key in sorted(found)
        if key not in _SAY_NOTHING and _other(key, found[key]) is not None
    }


def _other(key: str, value: Any) -> Optional[Tuple[str, Any]]:
    """The field of another value, and that value; None if there is none."""
    field = value.WhichOneof("value")
    if field == "b":
        return "b", not value.b
    if field == "i":
        return "i", value.i + 1
    if field == "f":
        return "f", value.f * 2 + 0.125
    if field == "s" and key in _TEXTS:
        others = [text for text in _TEXTS[key] if text.encode() != value.s]
        return ("s", others[0].encode()) if others else None
    if field == "list" and len(value.list.i) > 2:
        return "list", [
            *value.list.i[:1],
            *(i + (place == 0) for place, i in enumerate(value.list.i[1:-1])),
            value.list.i[-1],
        ]
    return None


def changed(subject: Subject, random: Any, names: Any, only: Any = None) -> Optional[Plant]:
    """One attribute of one of some nodes has another value."""
    keys = [
        (name, key)
        for name in names
        for key in _values(subject, name)
        if only is None or key in only
    ]
    found = pick(random, keys)
    if found is None:
        return None
    name, key = found
    field, value = _other(key, _values(subject, name)[key]) or ("", None)
    plant = Plant(subject)
    attribute = plant.node(name).attr[key]
    if field == "list":
        attribute.list.i[:] = value
    else:
        setattr(attribute, field, value)
    return plant.said("%s has %s %s", name, key, value)


@fault
def attribute_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """An attribute of an op of the original has another value."""
    return changed(
        subject, random, [name for name in subject.before.nodes if name in subject.view.nodes]
    )


@fault
def own_attribute_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """An attribute of an op added by graphmp has another value."""
    return changed(subject, random, subject.outside)


@fault
def update_attribute_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """An attribute of a write has another value: use_locking, use_nesterov, validate_shape."""
    return changed(
        subject,
        random,
        [
            *subject.writes,
            *sorted(subject.initializers),
        ],
    )


@fault
def own_node_on_another_device(subject: Subject, random: Any) -> Optional[Plant]:
    """A node added by graphmp is on a device that nothing in the original is on."""
    name = pick(random, subject.outside)
    if name is None:
        return None
    plant = Plant(subject)
    plant.node(name).device = random.choice(["/job:other/task:3", "/device:GPU:63"])
    return plant.said("%s is on %s", name, plant.node(name).device)


@fault
def kernel_chosen(subject: Subject, random: Any) -> Optional[Plant]:
    """An op of the original asks for a kernel of another label."""
    kept = [name for name in subject.before.nodes if name in subject.view.nodes]
    sums = [name for name in kept if subject.view.nodes[name].op == "AddN"]
    name = pick(random, random.choice([kept, sums]))
    if name is None:
        return None
    plant = Plant(subject)
    plant.node(name).attr["_kernel"].s = b"other"
    return plant.said("%s asks for another kernel", name)


@fault
def unknown_dimension_said(subject: Subject, random: Any) -> Optional[Plant]:
    """An unknown dimension in the recorded shape of a node of the original is said to be 7."""
    places = [
        (name, output, axis)
        for name in subject.before.nodes
        if name in subject.view.nodes and "_output_shapes" in subject.view.nodes[name].attr
        for output, shape in enumerate(subject.view.nodes[name].attr["_output_shapes"].list.shape)
        for axis, dimension in enumerate(shape.dim)
        if dimension.size == -1
    ]
    found = pick(random, places)
    if found is None:
        return None
    name, output, axis = found
    plant = Plant(subject)
    plant.node(name).attr["_output_shapes"].list.shape[output].dim[axis].size = 7
    return plant.said("%s:%d is said to be 7 along axis %d", name, output, axis)
