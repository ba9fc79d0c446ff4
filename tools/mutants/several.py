"""Several faults at once."""

from __future__ import annotations

from typing import Any, Optional

from mutants.classes import FAULTS, fault
from mutants.plant import Plant
from mutants.subject import Subject

_WHOLE = {"two_faults", "left_as_it_was"}  # several themselves, or without the nodes of the others


def together(subject: Subject, random: Any, count: int) -> Optional[Plant]:
    """A number of faults of single classes in one graph."""
    names = sorted(set(FAULTS) - _WHOLE)
    plant: Optional[Plant] = None
    for _ in range(6 * count):
        if plant is not None and len(plant.what) >= count:
            return plant
        found = FAULTS[random.choice(names)](subject if plant is None else grown(plant), random)
        if found is not None:
            found.what[:0] = plant.what if plant is not None else []
            found.touched |= plant.touched if plant is not None else set()
            plant = found
    return None


def grown(plant: Plant) -> Subject:
    """A subject whose converted graph already has a fault."""
    return Subject(plant.subject.name, plant.subject.original, plant.graph, plant.subject.train)


@fault
def two_faults(subject: Subject, random: Any) -> Optional[Plant]:
    """Two faults."""
    return together(subject, random, 2)
