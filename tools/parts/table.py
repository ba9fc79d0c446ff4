"""Tables on stdout: drawn by rich on a terminal, aligned columns of plain text elsewhere."""

from __future__ import annotations

import sys
from typing import List, Sequence

from rich.console import Console
from rich.table import Table


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text, with the first column left-aligned and numbers right-aligned."""
    if sys.stdout.isatty():
        _print_rich(headings, rows)
        return
    lines = [list(headings), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        print(_aligned(line, widths).rstrip())


def _aligned(cells: List[str], widths: List[int]) -> str:
    return "  ".join(
        [cells[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])]
    )


def _print_rich(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table()
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)
