"""The result of a comparison, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from graphmp.compare.categories import CATEGORIES
from graphmp.compare.changes import BodyPair, Change, KeptReason
from graphmp.compare.patterns import ChangePattern, patterns
from graphmp.graph.io.stored import StoredMetaGraph
from graphmp.verify import FAILED, NOT_PROVED, Claim


@dataclass(frozen=True, repr=False)
class Comparison:
    """All differences between two graphs.

    Attributes:
        changes: sorted by category, then by body and node.
        has_report: whether a report was given.
        names: names of the two graphs.
        claims: the claims about the two graphs.
        stale: changes in the report that the graphs don't have, as `node: change`.
        kept: why nodes stayed float32, by the report.
        bodies: the graphs themselves, body by body, the main graph first.
        graphs: both in stored form; None if only changes are known.
        report: the report of the conversion.
    """

    changes: Tuple[Change, ...]
    has_report: bool = False
    names: Tuple[str, str] = ("original", "converted")
    claims: Tuple[Claim, ...] = ()
    stale: Tuple[str, ...] = ()
    kept: Tuple[KeptReason, ...] = ()
    bodies: Tuple[BodyPair, ...] = field(default=(), compare=False)
    graphs: Optional[Tuple[StoredMetaGraph, StoredMetaGraph]] = field(default=None, compare=False)
    report: Optional[Dict[str, Any]] = field(default=None, compare=False)

    @property
    def identical(self) -> bool:
        """Whether nothing differs except the order of nodes."""
        return not self.changes

    @property
    def unexplained(self) -> Tuple[Change, ...]:
        """The changes without reason in the report; empty without a report."""
        return (
            tuple(change for change in self.changes if not change.reason) if self.has_report else ()
        )

    @property
    def failed(self) -> Tuple[Claim, ...]:
        """The claims that failed or could not be proved."""
        return tuple(claim for claim in self.claims if claim.verdict in (FAILED, NOT_PROVED))

    def groups(self) -> Dict[str, List[Change]]:
        """The changes by category, in order, without empty categories; unexplained ones first."""
        groups: Dict[str, List[Change]] = {category: [] for category in CATEGORIES}
        for change in self.unexplained + tuple(
            change for change in self.changes if change.reason or not self.has_report
        ):
            groups[change.category].append(change)
        return {category: changes for category, changes in groups.items() if changes}

    def counts(self) -> Dict[str, int]:
        """The number of changes by category, in order, without empty categories."""
        return {category: len(changes) for category, changes in self.groups().items()}

    def patterns(self) -> Tuple[ChangePattern, ...]:
        """The changes as patterns: names that only differ in numbers are grouped.

        Categories are in order, the unexplained patterns first in each.
        """
        return tuple(pattern for changes in self.groups().values() for pattern in patterns(changes))
