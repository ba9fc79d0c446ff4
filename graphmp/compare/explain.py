"""Joining a comparison with a conversion's report: changes are explained, unexplained, or stale."""

from __future__ import annotations

import collections
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Tuple, TypeVar

from graphmp.compare import categories
from graphmp.compare.changes import Change, KeptReason
from graphmp.compare.claims import report_claims
from graphmp.compare.model import Comparison
from graphmp.naming import in_body

_Compared = TypeVar("_Compared", bound=Comparison)
Reason = Tuple[str, str]  # its kind, and its text


def explained(diff: _Compared, report: Dict[str, Any]) -> _Compared:
    """The same differences with the report's reasons and facts.

    A row explains the change that it describes, at the node and in the body that it names; a row
    without a change applies to all changes of its node. A row is stale if the graphs lack its
    change.
    """
    reasons: Dict[Tuple[str, str, str], List[Reason]] = collections.defaultdict(list)
    for row in report.get("changes") or ():
        reasons[(row.get("body") or "", row["node"], row.get("change") or "")].append(
            (row.get("kind") or "", row.get("reason") or "")
        )
    changes, unmatched = [], set(reasons)
    for change in diff.changes:
        keys = [key for key in _keys(change) if key in reasons]
        unmatched.difference_update(keys)
        changes.append(_joined(change, [reason for key in keys for reason in reasons[key]]))
    stale = tuple(
        "%s: %s" % (in_body(body, node), words or "changed")
        for body, node, words in sorted(unmatched)
    )
    kept = tuple(
        sorted(
            KeptReason(node, row["body"], row["kind"], row["reason"])
            for row in report.get("float32_nodes") or ()
            for node in row.get("nodes", ())
        )
    )
    found = replace(
        diff, changes=tuple(changes), has_report=True, stale=stale, kept=kept, report=report
    )
    return replace(found, claims=report_claims(found, report))


def described(change: Change) -> str:
    """A change in the words of report.json: `dtype of T: float32 -> float16`."""
    if change.category in (categories.ADDED, categories.REMOVED):
        return "%s: %s" % (change.category, change.after or change.before)
    part = " of " + change.part if change.part else ""
    return "%s%s: %s -> %s" % (change.category, part, change.before, change.after)


def _keys(change: Change) -> Iterator[Tuple[str, str, str]]:
    """How a row may name a change.

    In full, by its category and values, by its category, or not at all.
    """
    words = (
        described(change),
        "%s: %s -> %s" % (change.category, change.before, change.after),
        change.category,
        "",
    )
    return ((change.body, change.node, word) for word in dict.fromkeys(words))


def _joined(change: Change, reasons: List[Reason]) -> Change:
    if not reasons:
        return change
    return replace(
        change,
        kind=reasons[0][0],
        reason="; ".join(dict.fromkeys(reason for _, reason in reasons if reason)),
    )
