"""Outcomes of mutants: verdicts and shares."""

from __future__ import annotations

from typing import Counter, NamedTuple

CAUGHT, MISSED, UNDECIDED, EQUIVALENT = "caught", "missed", "undecided", "equivalent"
ENOUGH = 0.99  # the share of a class that should be caught


class Outcome(NamedTuple):
    """The outcome of a mutant.

    Attributes:
        subject: the conversion in which it was planted.
        name: its class.
        number: identifies it, with the other two.
        what: the fault.
        verdict: one of the four.
        why: the reason for the verdict.
    """

    subject: str
    name: str
    number: int
    what: str
    verdict: str
    why: str

    @property
    def passed(self) -> bool:
        """Whether the check accepted it and no rule makes it equivalent."""
        return self.verdict in (MISSED, UNDECIDED)

    def __str__(self) -> str:
        """One line, with the text that identifies it for `--only`."""
        return "%s %s:%s:%d  %s%s" % (
            self.verdict,
            self.subject,
            self.name,
            self.number,
            self.what,
            "  (%s)" % self.why if self.why else "",
        )


def share(counted: Counter[str]) -> float:
    """The share caught of the mutants that count."""
    planted = counted[CAUGHT] + counted[MISSED] + counted[UNDECIDED]
    return counted[CAUGHT] / planted if planted else 1.0
