"""Files of the classes of faults that a check catches incompletely, and of the caught mutants.

    below CLASS                    a share below 99% is no failure; written by hand
    caught SUBJECT:CLASS  FAULT    this mutant, of such a class, must not pass

Faults are drawn anew when a conversion changes, so that the share of a class with holes varies. A
run fails if a mutant passes that the file lists as caught, or if a class without a line falls below
99%.
"""

from __future__ import annotations

import pathlib
from typing import FrozenSet, Iterable, List, NamedTuple, Sequence, Tuple

from mutants.outcomes import CAUGHT, Outcome

_Fault = Tuple[str, str]  # SUBJECT:CLASS, and the fault


class Expected(NamedTuple):
    """The content of such a file; empty by default.

    Attributes:
        below: classes.
        caught: faults.
    """

    below: FrozenSet[str] = frozenset()
    caught: FrozenSet[_Fault] = frozenset()

    def escaped(self, outcomes: Iterable[Outcome]) -> List[Outcome]:
        """The faults that pass now and were caught before."""
        return [
            outcome for outcome in outcomes if outcome.passed and _fault(outcome) in self.caught
        ]


NO_HOLES = Expected()


def read(path: pathlib.Path) -> Expected:
    """Read a file.

    Raises:
        ValueError: a line is of neither kind.
    """
    below, caught = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        word, _, rest = line.partition(" ")
        where, _, what = rest.partition("  ")
        if word == "below" and rest and not what:
            below.append(rest)
        elif word == "caught" and what:
            caught.append((where, what))
        elif line and not line.startswith("#"):
            raise ValueError(
                "%s, line %d: neither `below CLASS` nor `caught SUBJECT:CLASS  FAULT`: %s"
                % (path, number, line[:60])
            )
    return Expected(frozenset(below), frozenset(caught))


def write(path: pathlib.Path, outcomes: Sequence[Outcome]) -> None:
    """Update a file, keeping its `below` lines and comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    below = read(path).below
    kept = [line for line in lines if not line.startswith("caught ")]
    found = sorted(
        {
            _fault(outcome)
            for outcome in outcomes
            if outcome.verdict == CAUGHT and outcome.name in below
        }
    )
    path.write_text(
        "\n".join([*kept, *("caught %s  %s" % fault for fault in found)]) + "\n", encoding="utf-8"
    )


def _fault(outcome: Outcome) -> _Fault:
    return "%s:%s" % (outcome.subject, outcome.name), outcome.what
