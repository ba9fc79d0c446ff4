"""Faults of the scale's state: its growth and backoff, the writes, and their order."""

from __future__ import annotations

import re
from typing import Any, List, Optional

from graphmp.graph.structure.view import Port
from mutants.classes import fault, pick
from mutants.constants import add_to, numbers, times
from mutants.edges import dropped
from mutants.plant import Plant
from mutants.subject import Slot, Subject

_ASSIGNS = ("Assign", "AssignVariableOp")


def _constants(subject: Subject, pattern: str) -> List[str]:
    return [name for name in numbers(subject, subject.own) if re.search(pattern, name)]


def _changed(subject: Subject, random: Any, pattern: str, factors: Any) -> Optional[Plant]:
    name = pick(random, _constants(subject, pattern))
    if name is None:
        return None
    plant, factor = Plant(subject), random.choice(factors)
    node = plant.node(name)
    before, after = (
        times(node, factor)
        if subject.is_float(Port(name, 0))
        else add_to(node, random.choice([-1, 1, 1000]))
    )
    return plant.said("%s is %s in place of %s", name, after, before)


@fault
def backoff_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """The scale is reduced by another factor, or not at all."""
    return _changed(subject, random, r"/update/mul_1/y", [4.0, 2.0, 0.5, 0.0])


@fault
def growth_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """The scale grows by another factor, or not at all."""
    return _changed(subject, random, r"/update/mul/y", [2.0, 0.5, 0.25, 0.0])


@fault
def interval_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """The scale grows earlier or later."""
    return _changed(subject, random, r"/update/(GreaterEqual|add)/y", [1])


@fault
def bound_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """The smallest scale is changed."""
    return _changed(subject, random, r"/(current|update/Maximum(_\d+)?)/y", [0.5, 2.0, 0.0, 1e10])


@fault
def own_constant_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """Another number of the scale's arithmetic is changed."""
    return _changed(subject, random, r"graphmp/", [2.0, 0.5, 0.0, -1.0])


@fault
def state_starts_elsewhere(subject: Subject, random: Any) -> Optional[Plant]:
    """The scale or a count has another initial value."""
    return _changed(subject, random, r"/initial_value", [2.0, 0.5, 4096.0])


def own_assigns(subject: Subject) -> List[str]:
    """The writes of the scale's state."""
    return [name for name in subject.own if subject.view.nodes[name].op in _ASSIGNS]


@fault
def state_keeps_its_old_value(subject: Subject, random: Any) -> Optional[Plant]:
    """The scale or a count is assigned its old value."""
    name = pick(random, [name for name in own_assigns(subject) if not name.endswith("/Assign")])
    if name is None:
        return None
    slot = Slot(name, 1)
    variable = subject.read(Slot(name, 0)).node
    ends = re.compile(r"/(read|current|Merge|skipped|ReadVariableOp)(_\d+)?$|/cond(_\d+)?/Merge$")
    olds = [
        port
        for port in subject.alike(subject.read(slot), name)
        if ends.search(port.node) and subject.is_own(port)
    ]
    other = pick(
        random,
        [port for port in olds if variable in subject.view.ancestors([port.node], control=False)],
    )
    if other is None:
        return None
    plant = Plant(subject)
    plant.connect(slot, other)
    return plant.said("%s assigns %s in place of %s", name, other, subject.read(slot))


@fault
def state_is_written_unordered(subject: Subject, random: Any) -> Optional[Plant]:
    """A write of the scale's state no longer waits, or its readers no longer wait for it."""
    state = set(own_assigns(subject))
    edges = [
        (name, other)
        for name in subject.own
        for other in subject.view.controls(name)
        if name in state or other in state or "/update/" in other
    ]
    return dropped(subject, random, edges)


@fault
def step_does_not_update_the_scale(subject: Subject, random: Any) -> Optional[Plant]:
    """Nothing except one reader waits for the scale's update any more."""
    names = [
        name
        for name in subject.own
        if re.search(r"/update/step$", name) and subject.view.control_consumers(name)
    ]
    name = pick(random, names)
    if name is None:
        return None
    readers = list(subject.view.control_consumers(name))
    dropped = random.sample(readers, random.randint(1, len(readers)))
    plant = Plant(subject)
    for reader in dropped:
        plant.wait_no_longer(reader, name)
    return plant.said("%s no longer wait for %s", ", ".join(dropped), name)
