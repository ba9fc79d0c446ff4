"""The classes of faults: functions that plant a random fault in a copy of a subject's graph."""

from __future__ import annotations

import importlib
import random
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, TypeVar

from mutants.plant import Mutant, Plant, finished
from mutants.subject import Subject

Planter = Callable[[Subject, random.Random], Optional[Plant]]
FAULTS: Dict[str, Planter] = {}
HELD_OUT: Dict[str, Planter] = {}
_ATTEMPTS = 6
_MODULES = (
    "scaling checking gates clipping updating wiring edges constants attributes ops added casts "
    "listed second interface functions several held_out"
)
_Value = TypeVar("_Value")


def fault(plant: Planter) -> Planter:
    """Register a class of faults under its function's name; those of held_out.py are held out."""
    held_out = plant.__module__.endswith("held_out")
    (HELD_OUT if held_out else FAULTS)[plant.__name__] = plant
    return plant


def load() -> None:
    """Import all classes."""
    for name in _MODULES.split():
        importlib.import_module("mutants." + name)


def chosen(names: Sequence[str] = (), held_out: bool = False) -> List[str]:
    """The requested classes; without names, all that are held out or all that aren't."""
    load()
    unknown = sorted(set(names) - set(FAULTS) - set(HELD_OUT))
    if unknown:
        raise ValueError(
            "no class of faults %s; there are %s"
            % (", ".join(unknown), ", ".join(sorted([*FAULTS, *HELD_OUT])))
        )
    return list(names) or sorted(HELD_OUT if held_out else FAULTS)


def planted(name: str, subject: Subject, seed: Any) -> Optional[Mutant]:
    """A mutant of a class, determined by the seed; None if the subject has no place for it."""
    load()
    planter = FAULTS.get(name) or HELD_OUT[name]
    chance = random.Random("%s %s %s" % (name, subject.name, seed))
    for _ in range(_ATTEMPTS):
        mutant = finished(name, planter(subject, chance))
        if mutant is not None:
            return mutant
    return None


def first(
    chance: random.Random, values: Iterable[_Value], fits: Callable[[_Value], bool]
) -> Optional[_Value]:
    """The first value that fits, among a few random ones; None if none does."""
    listed = list(values)
    tried = chance.sample(listed, min(len(listed), _ATTEMPTS))
    return next((value for value in tried if fits(value)), None)


def pick(chance: random.Random, values: Sequence[_Value]) -> Optional[_Value]:
    """A random value; None if there are none."""
    return chance.choice(values) if values else None
