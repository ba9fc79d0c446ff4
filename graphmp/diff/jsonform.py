"""A diff for machines: JSON values of schema `graphmp.diff/1`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Dict

if TYPE_CHECKING:
    from graphmp.diff.model import Diff

SCHEMA = "graphmp.diff/1"


def render(diff: Diff) -> Dict[str, Any]:
    """A dict that json.dumps takes; `unexplained` is null where there was no report to explain anything."""
    return {
        "schema": SCHEMA,
        "before": diff.names[0],
        "after": diff.names[1],
        "identical": diff.identical,
        "counts": diff.counts(),
        "unexplained": len(diff.unexplained) if diff.has_report else None,
        "changes": [asdict(change) for change in diff.changes],
    }
