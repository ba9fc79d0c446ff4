"""Findings of an audit for the painter: nodes whose values overflow half precision on real data."""

from __future__ import annotations

import json
import pathlib
from typing import FrozenSet

from graphmp.errors import GraphmpError

SCHEMA = "graphmp.audit/1"


def overflowed(path: str) -> FrozenSet[str]:
    """Names of the nodes that overflowed in an audit; empty for an empty path.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP002 if it isn't an audit.
    """
    if not path:
        return frozenset()
    try:
        audit = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GraphmpError("GMP003", "--ranges=%s: cannot be read: %s" % (path, error)) from None
    names = (
        audit.get("overflowed")
        if isinstance(audit, dict) and audit.get("schema") == SCHEMA
        else None
    )
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise GraphmpError(
            "GMP002",
            "--ranges=%s: found no audit; accepted is what `graphmp audit -o FILE` writes"
            " (schema %s)" % (path, SCHEMA),
        )
    return frozenset(name.split(":")[0] for name in names)
