"""Lines and tables of text: plain in a pipe, in colour on a terminal."""

from __future__ import annotations

import sys
from typing import Any, Iterable, List, Sequence, Tuple

from rich.console import Console
from rich.text import Text

from graphmp.wording import more, printable

STYLES = dict.fromkeys(("row", "change", "blank"), "")
STYLES.update(
    head="bold",
    summary="bold",
    heading="bold cyan",
    note="yellow",
    unexplained="yellow",
    next="dim",
)
STYLES.update(
    {
        "added": "green",
        "removed": "red",
        "rewired": "magenta",
        "passed": "green",
        "failed": "bold red",
        "proved": "green",
    }
)
STYLES.update({"not proved": "bold red", "not applicable": "dim"})

Line = Tuple[str, str]  # a style and the text


def show(lines: Iterable[Line]) -> None:
    """Print lines. Control characters, and those missing in stdout's encoding, are escaped."""
    shown = [(style, encodable(printable(text))) for style, text in lines]
    if not sys.stdout.isatty():
        write("".join(text + "\n" for _, text in shown))
        return
    console = Console(highlight=False)
    for style, text in shown:
        console.print(Text(text, style=STYLES[style]), soft_wrap=True)


def write(text: str) -> None:
    """Write to stdout, with escapes for characters that its encoding lacks."""
    sys.stdout.write(encodable(text))
    sys.stdout.flush()  # a closed pipe must show here, where it is caught


def encodable(text: str) -> str:
    """`text` with escapes for characters that stdout's encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def section(
    heading: str, rows: Sequence[Sequence[Any]], most: int = 0, titles: Sequence[str] = ()
) -> List[Line]:
    """A heading and a table of at most `most` rows; empty without rows.

    Numbers are right-aligned.
    """
    if not rows:
        return []
    shown = [
        [value if isinstance(value, str) else format(value, ",") for value in row]
        for row in (rows[:most] if most else rows)
    ]
    widths = [max(map(len, column)) for column in zip(*([titles] if titles else []), *shown)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if isinstance(value, str) else cell.rjust(width)
            for cell, width, value in zip(cells, widths, rows[0])
        ]
        return ("  " + "  ".join(padded)).rstrip()

    head = [("row", ""), ("heading", heading)] + ([("heading", line(titles))] if titles else [])
    hidden = len(rows) - len(shown)
    left_out = [("row", "  %s: --json has them all" % more(hidden))] if hidden else []
    return head + [("row", line(cells)) for cells in shown] + left_out


def size(count: float) -> str:
    """Bytes as `1.5 GB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return "%s %s" % (format(count, ",.3g" if count < 1000 else ",.0f"), unit)
        count /= 1000
    raise AssertionError
