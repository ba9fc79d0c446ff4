"""A file that says which classes of faults a check isn't expected to catch whole, and what it catches of these.

    below CLASS                    a share below 99% is no failure; this line is written by hand
    caught SUBJECT:CLASS  FAULT    of such a class: this mutant must not pass

Faults are drawn anew where a conversion changes, so that the share of a class that has holes goes up and down. What fails is a mutant
that the file has as caught and that passes now, and a class without a line that falls below 99%.
"""

from __future__ import annotations

import pathlib
from typing import FrozenSet, Iterable, List, NamedTuple, Sequence, Tuple

from mutants.outcomes import CAUGHT, Outcome

_Fault = Tuple[str, str]  # SUBJECT:CLASS, and the fault


class Expected(NamedTuple):
    """What such a file says; nothing by default.

    Attributes:
        below: classes.
        caught: faults.
    """

    below: FrozenSet[str] = frozenset()
    caught: FrozenSet[_Fault] = frozenset()

    def escaped(self, outcomes: Iterable[Outcome]) -> List[Outcome]:
        """What passes now and was caught."""
        return [
            outcome for outcome in outcomes if outcome.passed and _fault(outcome) in self.caught
        ]


NO_HOLES = Expected()


def read(path: pathlib.Path) -> Expected:
    """Reads a file.

    Raises:
        ValueError: a line is none of the two kinds.
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
    """Writes a file anew, with the lines `below` and the comments that it has."""
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
