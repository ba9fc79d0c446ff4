"""Findings of an audit for the painter: nodes whose values overflow half precision on real data."""

from __future__ import annotations

from typing import FrozenSet

from graphmp.files import schemas
from graphmp.files.json_file import read_json

SCHEMA = "graphmp.audit/1"


def overflowed(path: str) -> FrozenSet[str]:
    """Names of the nodes that overflowed in an audit; empty for an empty path.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP002 if it isn't an audit.
    """
    if not path:
        return frozenset()
    accepted = "what `graphmp audit -o FILE` writes"
    audit = read_json(path, schemas.AUDIT, accepted, "--ranges=" + path, "GMP003")
    return frozenset(name.split(":")[0] for name in audit["overflowed"])
