"""The result of a repair: the nodes that stay float32, and their cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import List, NamedTuple, Optional, Sequence, Tuple

from graphmp.wording import labelled, plural, printable, shell_word


class KeepRule(NamedTuple):
    """A node to keep in float32.

    Attributes:
        node: its name.
        lost: the number of half-precision ops lost by this rule alone; None if it wasn't counted.
    """

    node: str
    lost: Optional[int]


@dataclass(frozen=True)
class Repair:
    """The findings.

    Attributes:
        rules: the nodes to keep; empty if the conversion passes without.
        passes: whether the conversion with the rules passes, on fresh batches too.
        runs: the number of conversions tried.
        half_before: half-precision ops of the conversion before.
        half_after: with the rules.
        matmuls_before: matmuls and convolutions among them.
        matmuls_after: with the rules.
        loss_scale: the loss scale that repairs it without a rule; empty if that isn't the cure.
        cut: whether the search ended early, so that fewer rules may do.
    """

    rules: List[KeepRule]
    passes: bool
    runs: int
    half_before: int
    half_after: int
    matmuls_before: int
    matmuls_after: int
    loss_scale: str = ""
    cut: bool = False

    def policy_lines(self) -> str:
        """The rules as lines of an op policy file."""
        return "".join("keep_float32 ^%s$%s\n" % (re.escape(r.node), _cost(r)) for r in self.rules)

    def to_text(self, policy: str, source: str, flags: Sequence[str] = ()) -> str:
        """The text of `graphmp audit --fix`.

        Args:
            policy: the name of the policy file.
            source: the source.
            flags: of the conversion that was repaired.
        """
        rows = self._rows(policy, self._command(policy, source, flags))
        return "".join(labelled(*row) + "\n" for row in rows)

    def _rows(self, policy: str, command: str) -> List[Tuple[str, str]]:
        """The lines, each with its label."""
        tried = "%d conversions tried" % self.runs
        if not self.passes:
            return [
                ("repair", "found none, %s; %s" % (self._last_try(), tried)),
                ("next", "is the data right? Try other --data, or a larger --tolerance"),
            ]
        if not self.rules:
            cure = "a loss scale of %s" % self.loss_scale if self.loss_scale else "none is needed"
            return [
                ("repair", "%s; agrees on the next batches too; %s" % (cure, tried)),
                ("wrote", "nothing: there is no rule for %s" % policy),
                ("next", command),
            ]
        tried += ", the most: fewer nodes may do" if self.cut else ""
        nodes = plural(len(self.rules), "node")
        cover = (self.half_after, self.half_before, self.matmuls_after, self.matmuls_before)
        return [
            ("repair", "%s kept in float32; agrees on the next batches too; %s" % (nodes, tried)),
            *(("keep", _kept(rule)) for rule in self.rules),
            (
                "cover",
                "%d of %d half-precision ops stay half, %d of %d matmuls and convolutions" % cover,
            ),
            ("wrote", policy),
            ("next", command),
        ]

    def _last_try(self) -> str:
        """The nodes in float32 when the search ended without a repair."""
        if not self.rules:
            return "with all nodes in float32 at last"
        kept = plural(len(self.rules), "node")
        return "%s kept in float32 agree on some batches and not on others" % kept

    def _command(self, policy: str, source: str, flags: Sequence[str]) -> str:
        """The command that converts the source with the repair."""
        cures = (("--loss_scale=", self.loss_scale), ("--op_policy=", policy if self.rules else ""))
        new = [(name, value) for name, value in cures if value]
        kept = [flag for flag in flags if not any(flag.startswith(name) for name, _ in new)]
        words = ["graphmp", "convert", source, *kept, *("".join(each) for each in new)]
        return " ".join(map(shell_word, words))


def _cost(rule: KeepRule) -> str:
    return "" if rule.lost is None else "  # %s fewer in half" % plural(rule.lost, "op")


def _kept(rule: KeepRule) -> str:
    cost = "" if rule.lost is None else "  (%d fewer half-precision ops by itself)" % rule.lost
    return printable(rule.node) + cost
