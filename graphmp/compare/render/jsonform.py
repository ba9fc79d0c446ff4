"""A diff for machines: JSON of schema `graphmp.diff/1`.

The schema is `graphmp/files/schema/graphmp.diff-1.schema.json`.
"""

from __future__ import annotations

from typing import Any, Dict

from graphmp.compare.changes import Change
from graphmp.compare.patterns import ChangePattern
from graphmp.compare.review.reviewed import Reviewed

SCHEMA = "graphmp.diff/1"


def render(diff: Reviewed) -> Dict[str, Any]:
    """A dict for json.dumps; `unexplained` and `stale` are null without a report."""
    return {
        "schema": SCHEMA,
        "before": diff.names[0],
        "after": diff.names[1],
        "identical": diff.identical,
        "counts": diff.counts(),
        "unexplained": len(diff.unexplained) if diff.has_report else None,
        "stale": list(diff.stale) if diff.has_report else None,
        "checks": [
            {"name": c.name, "status": c.verdict, "text": c.text, "nodes": list(c.nodes)}
            for c in diff.claims
        ],
        "changes": [_change(change) for change in diff.changes],
        "patterns": [_pattern(pattern) for pattern in diff.patterns()],
        "float32": [kept._asdict() for kept in diff.kept],
    }


def _change(change: Change) -> Dict[str, Any]:
    names = ("body", "node", "category", "part", "before", "after", "kind", "reason")
    return {name: getattr(change, name) for name in names}


def _pattern(pattern: ChangePattern) -> Dict[str, Any]:
    row = {
        name: getattr(pattern, name)
        for name in ("text", "category", "part", "before", "after", "kind", "reason")
    }
    return {**row, "count": len(pattern.changes)}
