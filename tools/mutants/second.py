"""Faults by second nodes of a kind, and by what nodes are colocated with or wait for."""

from __future__ import annotations

from typing import Any, Optional

from graphmp.graph.structure.view import Port
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import FLOATS, Subject

_FED = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_DRAWS = ("RandomStandardNormal", "RandomUniform", "TruncatedNormal")


def _copy(plant: Plant, name: str) -> Port:
    """Add a copy of a node."""
    node = plant.subject.view.nodes[name]
    port = plant.add("copy", node.op, list(node.input))
    for key, value in node.attr.items():
        plant.node(port.node).attr[key].CopyFrom(value)
    plant.node(port.node).device = node.device
    return port


@fault
def placeholder_copied(subject: Subject, random: Any) -> Optional[Plant]:
    """A placeholder is read by way of a second one, which nobody feeds."""
    nodes = subject.before.nodes
    names = [name for name in nodes if nodes[name].op in _FED and name in subject.view.nodes]
    slot = pick(random, [slot for name in names for slot in subject.readers(Port(name, 0))])
    if slot is None:
        return None
    plant = Plant(subject)
    name = subject.read(slot).node
    plant.connect(slot, _copy(plant, name))
    return plant.said("%s reads a copy of %s", slot.node, name)


@fault
def drawn_twice(subject: Subject, random: Any) -> Optional[Plant]:
    """A random op is replaced by two, one of which is read in one place."""
    nodes = subject.view.nodes
    names = [name for name in nodes if nodes[name].op in _DRAWS and not subject.frame(name)]
    slot = pick(random, [slot for name in names for slot in subject.readers(Port(name, 0))])
    if slot is None or subject.dtype(subject.read(slot)) not in FLOATS:
        return None
    plant, name = Plant(subject), subject.read(slot).node
    one, other = _copy(plant, name), _copy(plant, name)
    moved, device = plant.node(name), nodes[name].device
    moved.Clear()
    moved.name, moved.op, moved.device = name, "Identity", device
    moved.input.append(str(one))
    moved.attr["T"].type = subject.dtype(Port(name, 0))
    plant.connect(slot, other)
    return plant.said("%s reads numbers of its own in place of those of %s", slot.node, name)


@fault
def colocation_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A node of the original is colocated with another variable than it was."""
    nodes = subject.view.nodes
    listed = {
        name: nodes[name].attr["_class"].list.s[0].decode()
        for name in subject.before.nodes
        if name in nodes and "_class" in nodes[name].attr and nodes[name].attr["_class"].list.s
    }
    beside = {"loc:@" + name for name in subject.variables}
    name = pick(random, [name for name, text in listed.items() if text in beside])
    other = pick(random, sorted(beside - {listed.get(name or "", "")}))
    if name is None or other is None:
        return None
    plant = Plant(subject)
    plant.node(name).attr["_class"].list.s[:] = [other.encode()]
    return plant.said("%s is colocated by %s in place of %s", name, other, listed[name])


@fault
def cast_needs_a_feed_or_starts_a_count(subject: Subject, random: Any) -> Optional[Plant]:
    """A cast waits for a placeholder without need, or initialises the state of the scale."""
    starts = [name for name in subject.own if name.endswith(("_steps/Assign", "scale/Assign"))]
    fed = [name for name, node in subject.before.nodes.items() if node.op == "Placeholder"]
    casts = [
        name for name in subject.casts if not subject.frame(name) and subject.view.consumers(name)
    ]
    name, other = pick(random, casts), pick(random, starts + fed)
    if name is None or other is None or other in subject.view.ancestors([name]):
        return None
    if other in fed:
        behind = subject.descendants(name)
        if not behind - subject.descendants(other) - set(subject.outside):
            return None  # whoever reads it needs the feed already
    plant = Plant(subject)
    plant.wait(name, other)
    return plant.said("%s waits for %s", name, other)
