"""What came of mutants: a verdict for each, and shares."""

from __future__ import annotations

from typing import Counter, NamedTuple

CAUGHT, MISSED, UNDECIDED, EQUIVALENT = "caught", "missed", "undecided", "equivalent"
ENOUGH = 0.99  # the share of a class that should be caught


class Outcome(NamedTuple):
    """What came of a mutant.

    Attributes:
        subject: what it was planted in.
        name: its class.
        number: with these two, what makes it again.
        what: the fault.
        verdict: one of the four.
        why: what told.
    """

    subject: str
    name: str
    number: int
    what: str
    verdict: str
    why: str

    @property
    def passed(self) -> bool:
        """Whether the check let it pass and no rule says that it is equivalent."""
        return self.verdict in (MISSED, UNDECIDED)

    def __str__(self) -> str:
        """In one line, with what makes it again."""
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
