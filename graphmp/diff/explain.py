"""Joins a comparison with the report of a conversion: each change is explained, unexplained, or the report is stale."""

from __future__ import annotations

import collections
from dataclasses import replace
from typing import Any, Dict, List, Tuple

from graphmp.diff import categories
from graphmp.diff.changes import Change, Kept, in_body
from graphmp.diff.model import Diff
from graphmp.diff.proofs.checks import report_checks

Reason = Tuple[str, str]  # its kind, and in words


def explained(diff: Diff, report: Dict[str, Any]) -> Diff:
    """The same differences with the report's reasons, and what the report says besides.

    A row explains the change that it describes, at the node and in the body that it names; one that describes no change speaks for all of its
    node's. A row that describes a change which the graphs don't have is stale.
    """
    reasons: Dict[Tuple[str, str, str], List[Reason]] = collections.defaultdict(list)
    for row in report.get("changes") or ():
        reasons[(row.get("body") or "", row["node"], row.get("change") or "")].append((row.get("kind") or "", row.get("reason") or ""))
    changes = tuple(_joined(change, reasons) for change in diff.changes)
    known = {(change.body, change.node, words) for change in changes for words in _spellings(change)}
    stale = tuple("%s: %s" % (in_body(body, node), words or "changed") for body, node, words in sorted(reasons.keys() - known))
    kept = tuple(
        sorted(Kept(node, row["body"], row["kind"], row["reason"]) for row in report.get("float32_nodes") or () for node in row.get("nodes", ()))
    )
    found = replace(diff, changes=changes, has_report=True, stale=stale, kept=kept)
    return replace(found, checks=report_checks(found, report))


def described(change: Change) -> str:
    """A change in words, as report.json has it: `dtype of T: float32 -> float16`."""
    if change.category in (categories.ADDED, categories.REMOVED):
        return "%s: %s" % (change.category, change.after or change.before)
    return "%s%s: %s -> %s" % (change.category, _of(change.part), change.before, change.after)


def _of(part: str) -> str:
    return " of " + part if part else ""


def _spellings(change: Change) -> Tuple[str, ...]:
    """How a row may name a change: in full, by its category and values, by its category, or not at all."""
    return (described(change), "%s: %s -> %s" % (change.category, change.before, change.after), change.category, "")


def _joined(change: Change, reasons: Dict[Tuple[str, str, str], List[Reason]]) -> Change:
    rows = [row for words in dict.fromkeys(_spellings(change)) for row in reasons.get((change.body, change.node, words), ())]
    if not rows:
        return change
    return replace(change, kind=rows[0][0], reason="; ".join(dict.fromkeys(reason for _, reason in rows if reason)))
