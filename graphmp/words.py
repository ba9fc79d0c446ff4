"""Names in a sentence."""

from __future__ import annotations

from typing import Sequence


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are: `a, b, c and 1,204 more`."""
    return ", ".join(names[:most]) + (" and %s more" % format(len(names) - most, ",") if len(names) > most else "")
