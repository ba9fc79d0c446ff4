"""Names and errors in a sentence."""

from __future__ import annotations

from typing import Optional, Sequence


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are: `a, b, c and 1,204 more`."""
    return ", ".join(names[:most]) + (
        " and %s more" % format(len(names) - most, ",") if len(names) > most else ""
    )


def first_line(error: Optional[Exception]) -> str:
    """What a kernel said in an error; TensorFlow 2 puts a headline and the stack of the node's definition before it."""
    lines = str(getattr(error, "message", error)).strip().split("\n")
    starts = [number + 1 for number, line in enumerate(lines[:-1]) if line.startswith("Node: ")]
    return lines[starts[-1] if starts else 0].strip()
